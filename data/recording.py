"""Takes the rows of a finished run out of the database, without secrets, sealed tasks and paths."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from sqlmodel import Session, SQLModel, col, select

from data.cassette import Cassette, CassetteRefused, Rows, recorded
from data.home import Home
from data.lifecycle import ENDED
from data.model_keys import KeyMissing, read_key
from data.tables import INSERTED, Evaluation, GatewayModel, Harness, Run, Version
from data.tracks import TRACKS

OPEN_SPLITS = {"train", "diag", "dev", "blind"}  # a blind task is a row once its gate is decided
STEP_FIGURES = {"text", "rows", "trained", "candidates", "left_out", "by_source"}
BLIND_FIGURES = {"blind", "held_out", "guard"}
REMOVED = "[removed]"
SHORTEST_SECRET = 6
LIKE_A_SECRET = 10  # characters of a variable's value that is more than a word
SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|CANARY", re.IGNORECASE)
SECRET_TEXT = re.compile(
    r"\b(?:epk|sk|pk|rk|ghp|gho|hf|xox[abp])[_-][A-Za-z0-9_-]{16,}|"
    r"(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}|\bAKIA[A-Z0-9]{12,}|://[^/\s:@]+:[^/\s:@]+@|"
    r"\bAIza[A-Za-z0-9_-]{30,}|\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){2}"
)
HOST_PATH = re.compile(
    r"(?:(?<![\w./])|(?<=file://))/(?:home|root|Users|tmp|var|opt|srv|mnt|media|data|work|etc|usr|proc)/[^\s'\",;:)\]}]+"
)


def record_run(session: Session, run: str, home: Home) -> Cassette:
    """A run that has ended as a cassette; CassetteRefused when there is none, or it goes on."""
    row = session.get(Run, run)
    if row is None:
        raise CassetteRefused(f"there is no run {run} in {home.path}")
    if row.state not in ENDED:
        raise CassetteRefused(f"run {run} is {row.state}: a cassette is made once it has ended")
    rows = _rows(session, run)
    cleaner = Cleaner(known_secrets(session, home) | {row.secret}, home.path)
    cleaned = {
        name: [cleaner.row(KEEP.get(name, _whole)(one)) for one in some]
        for name, some in rows.items()
    }
    return recorded(run, cleaned)


def known_secrets(session: Session, home: Home) -> set[str]:
    """Every secret that this process can name: keys of the home, of models, of the environment."""
    named = {value for name, value in os.environ.items() if SECRET_NAME.search(name)}
    found = {value for value in named if len(value) >= LIKE_A_SECRET}
    for file in (home.owner_key, home.blind_key):
        if file.is_file():
            found.add(file.read_text())
    for model in session.exec(select(GatewayModel)):
        try:
            found.add(read_key(model))
        except KeyMissing:
            continue  # what cannot be read here cannot be searched for
    found |= set(session.exec(select(Run.secret)))
    return {text.strip() for text in found if len(text.strip()) >= SHORTEST_SECRET}


class Cleaner:
    """Takes secrets and the machine's paths out of every text of a row."""

    def __init__(self, secrets: Collection[str], home: Path) -> None:
        self._words = sorted(secrets, key=len, reverse=True)
        self._folders = {str(home): "PAWL_HOME", str(Path.home()): "~"}

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with clean texts, keys of records among them."""
        return {name: self._clean(value) for name, value in row.items()}

    def text(self, text: str) -> str:
        """One clean text."""
        for word in self._words:
            text = text.replace(word, REMOVED)
        for folder, name in self._folders.items():
            if folder != "/":
                text = re.sub(re.escape(folder) + r"(?=[/\s'\",;:)]|$)", name, text)
        return HOST_PATH.sub("[path]", SECRET_TEXT.sub(REMOVED, text))

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self._clean(one) for key, one in value.items()}
        return [self._clean(one) for one in value] if isinstance(value, list) else value


def _rows(session: Session, run: str) -> Rows:
    """The rows of a run by table, as written, those of sealed tasks left out."""
    rows: Rows = {}
    for name, track in TRACKS.items():
        found = session.exec(_query(name, track.table, run).order_by(INSERTED))
        rows[name] = [_plain(one) for one in found]
    rows["task"] = [one for one in rows["task"] if one["split"] in OPEN_SPLITS]
    readable = {one["id"] for one in rows["task"]}
    shown = {one["id"] for one in rows["evaluation"] if one["split"] in OPEN_SPLITS}
    rows["sample"] = [
        one for one in rows["sample"] if one["task"] in readable and one["evaluation"] in shown
    ]
    return rows


def _query(name: str, table: Any, run: str) -> Any:
    if name == "run":
        return select(table).where(table.id == run)
    if name == "harness":
        used = select(Version.harness).where(Version.run == run)
        return select(Harness).where(col(Harness.id).in_(used))
    if name == "account":
        return select(table).where(table.id == f"run:{run}")
    if name == "ledgerentry":
        return select(table).where(table.account == f"run:{run}")
    if name == "sample":
        ours = select(Evaluation.id).where(Evaluation.run == run)
        return select(table).where(table.evaluation.in_(ours))
    return select(table).where(table.run == run)


def _plain(row: SQLModel) -> dict[str, Any]:
    return row.model_dump(mode="json")


# What of a row stays


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    return row


def _run(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"secret": "0" * 64, "start_after": None}


def _round(row: dict[str, Any]) -> dict[str, Any]:
    """The gate's figures, without what its blind tasks could be drawn from again."""
    blind = row["evidence"].get("blind")
    if not isinstance(blind, Mapping):
        return row
    figures = {name: value for name, value in blind.items() if name in BLIND_FIGURES}
    return row | {"evidence": row["evidence"] | {"blind": figures}}


def _step(row: dict[str, Any]) -> dict[str, Any]:
    result = {name: value for name, value in row["result"].items() if name in STEP_FIGURES}
    return row | {"result": result}


def _model_call(row: dict[str, Any]) -> dict[str, Any]:
    """Who was asked, when and at what price; nothing of what was said, which may be of sealed tasks."""
    usage = {name: value for name, value in row["usage"].items() if name != "raw"}
    said = {"text": None, "call_key": str(row["id"]), "request_hash": "", "usage": usage}
    return row | said | {"error": row["error"] and "failed"}


def _reservation(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"accounts": [f"run:{row['run']}"]}


def _evaluation(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"protocol": {}}  # it names every task; its hash stays


def _checkpoint(row: dict[str, Any]) -> dict[str, Any]:
    """The weights stay behind."""
    return row | {"deleted_at": row["deleted_at"] or row["created_at"]}


def _job(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"spec": {}, "request_id": None}


KEEP: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "run": _run,
    "round": _round,
    "step": _step,
    "modelcall": _model_call,
    "reservation": _reservation,
    "evaluation": _evaluation,
    "checkpoint": _checkpoint,
    "job": _job,
}
