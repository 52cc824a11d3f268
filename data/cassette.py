"""A finished run in one file: written without secrets, read as data from elsewhere.

Lines of JSON: a head, then one line a row as [table, columns], then the SHA-256 of all before it.
Nothing in it is ever executed; a file that does not fit is refused whole, with what does not fit.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, SQLModel

from data.files import write_durable
from data.lifecycle import ENDED
from data.tables import SCHEMA_VERSION, Project, now
from data.tracks import TRACKS, Track, moment

FORMAT, VERSION = "pawl-cassette", 1
MOST_BYTES, MOST_ROWS = 64 * 1024 * 1024, 400_000
LONGEST_LINE = 1024 * 1024
RUN_ID = re.compile("[a-z0-9-]{1,64}")
LARGEST = 2**63

Rows = dict[str, list[dict[str, Any]]]


class CassetteRefused(Exception):
    """A cassette could not be made or read; the text says what does not fit."""


@dataclass(kw_only=True, slots=True, frozen=True)
class Cassette:
    """A recorded run: its rows by table, in the order in which they were written."""

    run: str
    made: str  # when it was recorded
    rows: Rows


def write_cassette(cassette: Cassette, file: Path) -> int:
    """Write the file whole or not at all; its bytes."""
    head = {"format": FORMAT, "version": VERSION, "schema": SCHEMA_VERSION}
    head |= {"run": cassette.run, "made": cassette.made}
    lines = [json.dumps(head)]
    lines += [json.dumps([name, row]) for name, rows in cassette.rows.items() for row in rows]
    body = "".join(f"{line}\n" for line in lines).encode()
    whole = body + json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"
    if len(whole) > MOST_BYTES or len(lines) > MOST_ROWS:
        raise CassetteRefused(f"run {cassette.run} is too long for a cassette: {len(lines)} rows")
    try:
        write_durable(file, whole)
    except OSError as error:
        raise CassetteRefused(f"{file} cannot be written: {error.strerror}") from None
    return len(whole)


def read_cassette(file: Path, project: str, workspace: str) -> Cassette:
    """A cassette whose every row fits the tables, as rows of that project; else CassetteRefused."""
    lines = _lines(file)
    head = _head(file, lines[0])
    rows: Rows = {name: [] for name in TRACKS}
    place = {"project_id": project, "workspace_id": workspace}
    for number, line in enumerate(lines[1:], 2):
        try:
            name, row = _row(line, head["run"], place)
        except (ValueError, RecursionError) as wrong:
            raise CassetteRefused(f"{file}, line {number}: {_words(wrong)}") from None
        rows[name].append(row)
    _check_together(file, head["run"], rows, Project(id=project, workspace_id=workspace, name=""))
    return Cassette(run=head["run"], made=head["made"], rows=rows)


def _lines(file: Path) -> list[bytes]:
    """The lines of a file that is whole, without the last one."""
    try:
        with open(file, "rb") as opened:
            whole = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise CassetteRefused(f"{file} cannot be read: {error.strerror}") from None
    if len(whole) > MOST_BYTES:
        raise CassetteRefused(f"{file} is larger than {MOST_BYTES // 2**20} MiB: not a cassette")
    body, _, last = whole.removesuffix(b"\n").rpartition(b"\n")
    if last != json.dumps({"sha256": hashlib.sha256(body + b"\n").hexdigest()}).encode():
        raise CassetteRefused(f"{file} is cut off or was changed: export it again")
    lines = body.split(b"\n")
    if len(lines) > MOST_ROWS or max(map(len, lines)) > LONGEST_LINE:
        raise CassetteRefused(f"{file} has too many or too long lines: not a cassette")
    return lines


def _head(file: Path, line: bytes) -> dict[str, Any]:
    try:
        head = _json(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise CassetteRefused(f"{file} is not a cassette")
    found = (head.get("version"), head.get("schema"))
    if found != (VERSION, SCHEMA_VERSION):
        raise CassetteRefused(
            f"{file} is of version {found[0]!s:.9}, schema {found[1]!s:.9}; this Pawl plays "
            f"version {VERSION}, schema {SCHEMA_VERSION}: play it with the Pawl that made it"
        )
    run, made = head.get("run"), head.get("made")
    if not isinstance(run, str) or not RUN_ID.fullmatch(run) or not isinstance(made, str):
        raise CassetteRefused(f"{file} does not say which run it is of")
    return {"run": run, "made": made[:40]}


def _row(line: bytes, run: str, place: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Table and columns of one line; ValueError with what does not fit."""
    found = _json(line)
    if not (isinstance(found, list) and len(found) == 2 and isinstance(found[1], dict)):
        raise ValueError("not a row")
    name, row = found
    track = TRACKS.get(name) if isinstance(name, str) else None
    if track is None:
        raise ValueError(f"{str(name)[:40]!r} is not a table of a cassette")
    columns = track.table.model_fields
    row |= {key: value for key, value in place.items() if key in columns}
    if unknown := sorted(set(row) - set(columns)):
        raise ValueError(f"{name} has no column {unknown[0][:40]!r}")
    if "run" in columns and row.get("run") != run:
        raise ValueError(f"{name}: a row of another run")
    try:
        track.table.model_validate(row, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{name}.{first['loc'][0]}: {first['msg']}") from None
    for column, value in row.items():
        if (column == "at" or column.endswith("_at")) and value and moment(value) is None:
            raise ValueError(f"{name}.{column}: not a time")
    return name, row


def _json(line: bytes) -> Any:
    """JSON whose numbers and texts a database can hold."""
    return _checked(json.loads(line, parse_constant=_no_number))


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _checked(value: Any) -> Any:
    if isinstance(value, dict):
        for key, one in value.items():
            key.encode()
            _checked(one)
    elif isinstance(value, list):
        for one in value:
            _checked(one)
    elif isinstance(value, str):
        value.encode()  # half a character cannot be stored
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    elif isinstance(value, int):
        _checked_int(value)
    return value


def _checked_int(value: int) -> None:
    if not -LARGEST <= value < LARGEST:
        raise ValueError("a number is too large")


def _check_together(file: Path, run: str, rows: Rows, project: Project) -> None:
    """Put all rows into a database in memory: what they refer to must be there, and once."""
    found = rows["run"]
    if len(found) != 1 or found[0].get("id") != run or found[0].get("state") not in ENDED:
        raise CassetteRefused(f"{file} does not have one run that has ended")
    db = create_engine("sqlite://", hide_parameters=True)
    try:
        SQLModel.metadata.create_all(db)
        with Session(db) as session:
            session.add(project)
            session.flush()
            for track, row in in_order(rows):
                session.add(track.table(**row))
            session.flush()
            broken = session.connection().exec_driver_sql("PRAGMA foreign_key_check").first()
    except (SQLAlchemyError, OverflowError) as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        raise CassetteRefused(f"{file}: its rows do not fit together: {cause}") from None
    finally:
        db.dispose()
    if broken:
        raise CassetteRefused(f"{file}: a row of {broken[0]} refers to one that is not there")


def in_order(rows: Rows) -> Iterator[tuple[Track, dict[str, Any]]]:
    """Every row, those that others refer to first."""
    for name, track in TRACKS.items():
        for row in rows.get(name, []):
            yield track, row


def _words(wrong: Exception) -> str:
    if isinstance(wrong, RecursionError):
        return "nested too deeply"
    return "not JSON" if isinstance(wrong, json.JSONDecodeError) else str(wrong)


def recorded(run: str, rows: Rows) -> Cassette:
    """A cassette of these rows, made now."""
    return Cassette(run=run, made=now(), rows=rows)
