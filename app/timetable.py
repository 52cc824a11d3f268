"""Settings of when and where this machine works: what they may hold."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from app.errors import InvalidRequest
from data.hours import Hours, read_hours

HOURS = ("quiet_hours", "rounds_window")
PLACES = ("serve_device", "tensor_parallel", "train_device")
DEVICE = re.compile("cpu|cuda:[0-9]{1,2}")


def check_hours(value: str) -> str:
    """Spans of the day, separated by commas; "none" for none."""
    if value.lower() == "none":
        return ""
    try:
        read_hours(value)
    except ValueError as error:
        raise InvalidRequest(f"hours: {error}") from None
    return ", ".join(part.strip() for part in value.split(",") if part.strip())


def check_any_time(values: Mapping[str, str]) -> None:
    """InvalidRequest when quiet hours cover the whole window in which rounds may start."""
    hours = Hours(
        window=read_hours(values.get("rounds_window", "")),
        quiet=read_hours(values.get("quiet_hours", "")),
    )
    if hours.next_start(datetime.now(UTC)) is None:
        told = " and ".join(f"{name} {values[name]!r}" for name in HOURS if values.get(name))
        raise InvalidRequest(f"{told} would leave no time in which rounds may start")


def check_device(value: str) -> str:
    """A device by torch's name."""
    device = "cuda:0" if value.lower() == "cuda" else value.lower()
    if device and not DEVICE.fullmatch(device):
        raise InvalidRequest(f"{value!r} is not a device such as cuda:0 or cpu")
    return device


def check_parallel(value: str) -> str:
    """How many cards one model is spread over."""
    if value and not re.fullmatch("[1-9][0-9]?", value):
        raise InvalidRequest(f"tensor_parallel: {value!r} is not a number of cards from 1 to 99")
    return value


def check_devices(name: str, values: Mapping[str, str], devices: Sequence[str]) -> None:
    """InvalidRequest when a setting asks for a device that this machine does not have."""
    there = ", ".join(devices)
    train = values.get("train_device") or devices[0]
    serve = values.get("serve_device") or train
    count = int(values.get("tensor_parallel") or 1)
    if name in ("train_device", "serve_device") and values[name] and values[name] not in devices:
        raise InvalidRequest(f"{name}: this machine has {there}, not {values[name]}")
    if count == 1:
        return
    if serve == "cpu":
        raise InvalidRequest("tensor_parallel: only cards share a model; set serve_device first")
    first = int(serve.removeprefix("cuda:"))
    cards = [f"cuda:{first + number}" for number in range(count)]
    if not set(cards) <= set(devices):
        raise InvalidRequest(
            f"tensor_parallel: {count} cards from {serve} on are not here; this machine has {there}"
        )
