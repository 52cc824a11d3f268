"""The server's log: rotated, private, one line an entry, without keys; the worker's is rotated too."""

import logging
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.logs import keep_log, plain
from app.tokens import new_key, new_token
from data.store import Store
from data.tables import Setting
from engine import children

Keep = Callable[..., Path]


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    """Starts a log in a folder of its own; its file."""
    ends: list[Callable[[], None]] = []

    def start(**sizes: int) -> Path:
        ends.append(keep_log(tmp_path, **sizes))
        return tmp_path / "server.log"

    yield start
    for end in ends:
        end()


def entries(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_an_entry_says_when_in_utc_how_grave_from_where_and_what(keep: Keep) -> None:
    file = keep()
    logging.getLogger("engine.driver").warning("run %s broke", "r")
    when, level, name, text = entries(file)[-1].split(" ", 3)
    assert when.endswith("Z") and len(when) == len("2026-01-05T08:00:00.123Z")
    assert (level, name, text) == ("WARNING", "engine.driver:", "run r broke")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_ours_is_kept_from_info_on_and_others_from_warning_on(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    file = keep()
    logging.getLogger("data.cleaning").info("cleaned")
    logging.getLogger("apscheduler.executors").info("chatter")
    logging.getLogger("apscheduler.executors").error("job failed")
    said = "\n".join(entries(file))
    assert "cleaned" in said and "job failed" in said and "chatter" not in said
    assert "has the home" in entries(file)[0]
    on_terminal = capsys.readouterr().err
    assert "job failed" in on_terminal and "cleaned" not in on_terminal


def test_ten_files_of_their_size_are_kept_and_no_more(keep: Keep, tmp_path: Path) -> None:
    keep(bytes_each=500, files=10)
    for number in range(200):
        logging.getLogger("app").info("entry %03d %s", number, "." * 50)
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [
        "server.log",
        *(f"server.log.{number}" for number in range(1, 10)),
    ]
    assert all(path.stat().st_size <= 500 for path in files)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert "entry 199" in files[0].read_text()
    kept = [line.split()[4] for path in files for line in path.read_text().splitlines()]
    newest = [f"{number:03d}" for number in range(200 - len(kept), 200)]
    assert sorted(kept) == newest, "the newest entries, without a gap"


def test_no_text_can_pose_as_an_entry_or_steer_a_terminal(keep: Keep) -> None:
    file = keep()
    bad = (
        "red\x1b[31m\x1b]0;title\x07 bell\x07 \u202eevil\n2026-01-05T08:00:00.000Z INFO pawl: fake"
    )
    logging.getLogger("app").error("%s", bad)
    try:
        raise ValueError(bad)
    except ValueError:
        logging.getLogger("app").exception("broke")
    content = file.read_text()
    assert all(char.isprintable() or char == "\n" for char in content)
    real = [line for line in content.splitlines() if not line.startswith("    ")]
    assert [line.split(" ")[1] for line in real] == ["INFO", "ERROR", "ERROR"]
    assert "red bell evil\\n2026" in content and "ValueError: red" in content


@pytest.mark.parametrize(
    "form",
    [
        "key {}",
        "Authorization: Bearer {}",
        "GET /sign-in?link={} HTTP/1.1",
        "/x?a=1&token={}&b=2",
        "provider said: invalid key sk-{}",
    ],
)
def test_keys_do_not_reach_the_log(form: str) -> None:
    key = new_key("k1") if form.startswith("key") else new_token()
    said = plain(form.format(key))
    assert key[-20:] not in said and "***" in said
    assert said.endswith(form.partition("{}")[2])


def test_what_a_failed_write_held_does_not_reach_the_log(keep: Keep, tmp_path: Path) -> None:
    """The database's own errors show their values unless told otherwise."""
    file, canary = keep(), new_token()  # made here, since a traceback shows lines of code
    store = Store(tmp_path / "pawl.db")
    store.write(lambda s: s.add(Setting(name="same", value="x")))
    done = threading.Event()
    store.post(lambda s: s.add(Setting(name="same", value=canary)))
    store.post(lambda s: done.set())
    assert done.wait(60)
    with pytest.raises(Exception, match="UNIQUE") as refused:
        store.write(lambda s: s.add(Setting(name="same", value=canary)))
    logging.getLogger("app").error("broke", exc_info=refused.value)
    store.close()
    assert "UNIQUE" in file.read_text() and canary not in file.read_text()


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    end = keep_log(tmp_path / "file" / "logs")
    logging.getLogger("app").warning("nowhere to go")
    end()


def test_the_workers_log_keeps_ten_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LOG_BYTES", 10)
    log = tmp_path / "worker.log"
    for number in range(14):
        code = f"print('start {number:02d} of the worker')"
        process, _ = children.start_child([sys.executable, "-S", "-c", code], log)
        assert process.wait(60) == 0
    assert log.read_text() == "start 13 of the worker\n"
    older = [(tmp_path / f"worker.log.{number}").read_text()[6:8] for number in range(1, 10)]
    assert older == [f"{number:02d}" for number in range(12, 3, -1)]
    assert len(list(tmp_path.iterdir())) == 10
