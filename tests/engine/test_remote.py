"""One attempt at a remote model: what comes back, what it may have cost, where it may go."""

from types import SimpleNamespace

import pytest

from engine.models import addresses, prices, remote
from engine.models.remote import RemoteFailed, RemoteModel, complete
from tests.fake_provider import (
    CACHED,
    INPUT,
    LONG_ABOVE,
    LONG_INPUT,
    LONG_OUTPUT,
    OUTPUT,
    FakeProvider,
    pieces,
)

ASKED = [{"role": "user", "content": "17 + 25 = ?"}]
PRICE = {
    "input": INPUT,
    "output": OUTPUT,
    "cached": CACHED,
    "tiers": [{"above": LONG_ABOVE, "input": LONG_INPUT, "output": LONG_OUTPUT, "cached": CACHED}],
}


def near(provider: FakeProvider, seconds: float = 60.0) -> RemoteModel:
    return RemoteModel(
        name="m", base_url=provider.base_url, api_key="k", local=True, read_seconds=seconds
    )


def test_an_answer_is_read_whole_with_what_it_cost():
    with FakeProvider() as provider:
        reply = complete(near(provider), ASKED, max_tokens=16)
    assert (reply.text, reply.finish) == ("42", "stop")
    assert prices.actual(PRICE, reply.usage) == provider.billed
    assert reply.raw["total_tokens"] == reply.usage.tokens_in + reply.usage.tokens_out
    assert provider.requests[0]["max_tokens"] == 16
    assert provider.headers[0]["authorization"] == "Bearer k"


def test_cached_tokens_cost_what_the_provider_bills_for_them():
    long = [{"role": "user", "content": "x" * 4 * (10_500 - 4)}]
    price = {"input": INPUT, "output": OUTPUT, "cached": CACHED}
    with FakeProvider(cached=lambda tokens: 10_000) as provider:
        usage = complete(near(provider), long, max_tokens=16).usage
    assert (usage.tokens_in, usage.cached) == (10_500, 10_000)
    assert prices.actual(price, usage) == 500 * 3 + 10_000 * 3 // 10 + 15
    assert prices.actual({**price, "cached": None}, usage) == 10_500 * 3 + 15


def test_a_long_request_is_priced_by_its_tier_and_reserved_above_it():
    long = [{"role": "user", "content": "x" * 4 * 5_000}]
    with FakeProvider() as provider:
        usage = complete(near(provider), long, max_tokens=16).usage
    assert prices.actual(PRICE, usage) == provider.billed
    assert prices.worst_case(PRICE, long, 16) >= provider.billed


def test_without_a_usage_record_nobody_knows_the_cost():
    with FakeProvider(lambda _: "no usage") as provider:
        reply = complete(near(provider), ASKED, max_tokens=16)
    assert reply.text == "42"
    assert reply.usage is None


@pytest.mark.parametrize(
    ("does", "free", "retry", "says"),
    [
        ("broken", False, True, "broke off"),
        ("silent", False, True, "silent"),
        ("billed 429", False, True, "slow down"),
        ("billed 500", False, True, "500: the provider refused or failed (refused)"),
        ("401", True, False, "key"),
    ],
)
def test_a_failure_says_whether_it_may_have_cost_money(does, free, retry, says):
    seconds = 0.5 if does == "silent" else 60.0
    with FakeProvider(lambda _: does) as provider, pytest.raises(RemoteFailed) as failed:
        provider.silent_seconds = 60.0
        complete(near(provider, seconds), ASKED, max_tokens=16)
    assert (failed.value.free, failed.value.retry) == (free, retry)
    assert says in str(failed.value)
    assert provider.did == {does: 1}, "sent once"
    assert free == (provider.billed == 0)


def test_far_more_than_was_allowed_is_cut_off_and_said():
    with FakeProvider(lambda _: "overlong") as provider, pytest.raises(RemoteFailed) as failed:
        complete(near(provider), ASKED, max_tokens=64)
    assert failed.value.overran and not failed.value.free


def test_signs_of_life_do_not_hold_a_call_for_ever(monkeypatch):
    monkeypatch.setattr(remote, "WHOLE_SECONDS", 0.5)
    with FakeProvider(lambda _: "only comments") as provider, pytest.raises(RemoteFailed) as failed:
        provider.silent_seconds = 60.0
        complete(near(provider), ASKED, max_tokens=16)
    assert "too slow in all" in str(failed.value)
    assert not failed.value.free


def test_a_character_that_came_in_two_halves_is_put_together(monkeypatch):
    def halves(text, usage):
        yield from (
            piece.replace("4", "\\ud83d").replace('2"', '\\ude00"') for piece in pieces(text, None)
        )
        yield list(pieces(text, usage))[-1]

    monkeypatch.setattr("tests.fake_provider.pieces", halves)
    with FakeProvider() as provider:
        assert complete(near(provider), ASKED, max_tokens=16).text == "\U0001f600"
    assert remote.whole_characters("a\ud83d") == "a\ufffd"


def test_a_models_key_is_not_in_what_is_printed_of_it():
    model = RemoteModel(name="m", base_url="https://m/v1", api_key="the-secret")
    assert "the-secret" not in repr(model)


def test_a_provider_that_is_not_there_costs_nothing():
    with FakeProvider() as provider:
        gone = near(provider)
    with pytest.raises(RemoteFailed, match="cannot be reached") as failed:
        complete(gone, ASKED, max_tokens=16)
    assert failed.value.free and failed.value.retry


def test_a_model_on_this_machine_has_to_be_meant_to_be_there():
    with FakeProvider() as provider:
        model = RemoteModel(name="m", base_url=provider.base_url, api_key="k")
        with pytest.raises(RemoteFailed, match="--local") as failed:
            complete(model, ASKED, max_tokens=16)
    assert failed.value.free
    assert provider.requests == []


def test_a_name_with_several_addresses_is_tried_at_each(monkeypatch):
    real = addresses.socket.getaddrinfo

    def found(host, port, *more, **named):
        if host != "localhost":
            return real(host, port, *more, **named)
        return [(0, 0, 0, "", (one, port)) for one in ("::1", "127.0.0.1", "127.0.0.1")]

    with FakeProvider() as provider:
        monkeypatch.setattr(addresses.socket, "getaddrinfo", found)
        named = provider.base_url.replace("127.0.0.1", "localhost")
        model = RemoteModel(name="m", base_url=named, api_key="k", local=True)
        assert complete(model, ASKED, max_tokens=16).text == "42"


def test_a_redirect_is_not_followed():
    import http.server
    import threading

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    model = RemoteModel(name="m", base_url=url, api_key="k", local=True)
    with pytest.raises(RemoteFailed, match="307"):
        complete(model, ASKED, max_tokens=16)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("169.254.169.254", True),
        ("169.254.1.1", True),
        ("fd00:ec2::254", True),
        ("fe80::1%eth0", True),
        ("::ffff:169.254.169.254", True),
        ("0.0.0.0", True),
        ("224.0.0.1", True),
        ("100.100.100.200", True),
        ("168.63.129.16", False),
        ("192.0.0.192", True),
        ("127.0.0.1", False),
        ("10.0.0.5", False),
        ("192.168.1.10", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("100.64.0.1", False),
    ],
)
def test_addresses_that_are_never_connected_to(address, local):
    with pytest.raises(addresses.AddressRefused):
        addresses.check_addresses("models.example", [address], local=local)
    with pytest.raises(addresses.AddressRefused):  # one bad address among good ones is enough
        addresses.check_addresses("models.example", ["93.184.216.34", address], local=local)


def test_addresses_that_are():
    assert addresses.check_addresses("m", ["93.184.216.34"], local=False) == ["93.184.216.34"]
    assert addresses.check_addresses("m", ["127.0.0.1"], local=True) == ["127.0.0.1"]
    assert addresses.check_addresses("m", ["10.0.0.5"], local=True) == ["10.0.0.5"]
    both = ["::1", "127.0.0.1"]
    assert addresses.check_addresses("localhost", both, local=True) == both


@pytest.mark.parametrize(
    "url",
    [
        "ftp://m/v1",
        "models.example/v1",
        "http://",
        "http://models.example/v1",
        "https://u:p@m/v1",
        "https://m/v1?x=1",
        "file:///etc",
    ],
)
def test_urls_that_are_no_address_of_a_model(url):
    with pytest.raises(addresses.AddressRefused):
        addresses.check_url(url, local=False)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": None},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": 10, "completion_tokens": 10**30},
        {
            "prompt_tokens": 10,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 11},
        },
    ],
)
def test_a_usage_record_that_makes_no_sense_is_none(raw):
    assert prices.read_usage(raw) is None


def test_reasoning_that_is_counted_beside_the_answer_is_paid_for():
    raw = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 1015}
    details = {"completion_tokens_details": {"reasoning_tokens": 1000}}
    assert prices.read_usage(raw | details).tokens_out == 1005
    inside = raw | {"completion_tokens": 1005} | details
    assert prices.read_usage(inside).tokens_out == 1005


def test_of_what_a_provider_says_only_plain_words_are_passed_on():
    def refused(**said):
        return str(remote.refused("m", SimpleNamespace(status_code=400, **said)))

    assert refused(code="unsupported_parameter", param="max_tokens").endswith(
        "(unsupported_parameter, max_tokens)"
    )
    assert refused(code="sk-live-0123", param="What is 17 + 25?").endswith("failed")
    assert refused(code=None, param=7).endswith("failed")
