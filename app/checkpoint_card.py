"""The card of an exported model: what stands in its README.md."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from app import job_shapes as shapes
from app.downloads import public_name
from data.tables import Checkpoint, Evaluation, Harness, Round, Run, Version

SPLITS = {"dev": "development", "blind": "blind", "held_out": "held out", "guard": "guard"}


def facts_of(session: Session, version: Version, item: shapes.CheckpointItem) -> dict[str, Any]:
    """Everything that a card tells of a version, and what an export needs to know; plain JSON."""
    row = session.get_one(Checkpoint, item.checkpoint_id)
    harness = session.get(Harness, version.harness)
    return {
        "id": row.id,
        "name": public_name(version),
        "base_model": row.base_model,
        "base_revision": row.base_revision,
        "bytes": sum(file.size_bytes for file in item.files),
        "files": [file.model_dump() for file in item.files],
        "made": version.created_at,
        "imported": row.training.get("imported"),
        "simulated": row.simulated,
        "system": (harness.spec.get("system") or None) if harness is not None else None,
        "settings": row.training.get("settings") or {},
        "trained_rows": version.trained_rows,
        "gate": _gate(session, version),
        "scores": _scores(session, version),
    }


def _gate(session: Session, version: Version) -> dict[str, Any] | None:
    """What the gate of its round decided; None where there was none."""
    query = select(Round).where(Round.run == version.run, Round.number == version.round)
    row = session.exec(query).first() if version.run is not None else None
    if row is None or row.decision is None:
        return None
    run = session.get_one(Run, row.run)
    return {
        "run": row.run,
        "round": row.number,
        "domain": run.domain,
        "decision": row.decision,
        "reason": row.reason,
    }


def _scores(session: Session, version: Version) -> list[dict[str, Any]]:
    """The version beside the first one of its run and the best before it, split by split."""
    if version.run is None:
        return []
    query = select(Evaluation).where(
        Evaluation.run == version.run,
        col(Evaluation.split).in_(SPLITS),
        Evaluation.repeat == 0,
    )
    rows = session.exec(query.order_by(col(Evaluation.id))).all()
    means = {(row.version, row.split, row.protocol_hash): row.mean for row in rows}
    started = select(Round.start_version).where(
        Round.run == version.run, Round.number == version.round
    )
    before = session.exec(started).first() or "base"
    own = {row.split: row for row in rows if row.version == version.name}
    return [
        {
            "split": split,
            "n": own[split].scored,
            "mean": own[split].mean,
            "low": own[split].low,
            "high": own[split].high,
            # Of others only what was measured on the same tasks in the same way.
            "base": means.get(("base", split, own[split].protocol_hash)),
            "before": means.get((before, split, own[split].protocol_hash)),
        }
        for split in SPLITS
        if split in own
    ]


def card(facts: Mapping[str, Any], base: Mapping[str, Any], merged: str | None) -> str:
    """A README of an exported folder. `base` says where the base comes from: `name`, `revision`,
    `exact`, `source`; `merged` is the precision of a merged model, None for an adapter."""
    what = f"{facts['base_model']} with an adapter merged in" if merged else "A LoRA adapter"
    lines = [*_head(base, merged), f"# {facts['name']}", "", f"{what}, exported by Pawl.", ""]
    lines += [*_origin(facts, base, merged), "", *_evidence(facts), "", *_files(facts)]
    lines += ["", "## How to load it", "", "```python", *_loading(base, merged), "```"]
    return "\n".join([*lines, *_asking(facts), ""])


def _head(base: Mapping[str, Any], merged: str | None) -> list[str]:
    """What hubs read of a card."""
    licence = [f"license: {base['licence'].lower()}"] if base["licence"] else []
    library = "transformers" if merged else "peft"
    told = [*licence, f"base_model: {base['name']}", f"library_name: {library}"]
    return ["---", *told, "---", ""]


def _origin(facts: Mapping[str, Any], base: Mapping[str, Any], merged: str | None) -> list[str]:
    told = [f"- Base: {base['name']}" + (f" at {base['revision']}" if base["revision"] else "")]
    told.append(f"- Base as it was used: {facts['base_model']}, content {facts['base_revision']}")
    if base["source"] and "/" not in base["source"]:  # a folder of this machine tells nobody else
        told.append(f"- Source of its weights: {base['source']}")
    if base["licence"]:
        told.append(f"- Licence of the base: {base['licence']}")
    if not base["exact"] and not merged:
        told.append(
            f"- The base here was made from another form of {base['name']}: on that one answers "
            "may differ a little, the merged model's do not"
        )
    told.append(f"- Adapter: {facts['id']}, made {facts['made']}")
    if merged:
        told.append(f"- Weights: {merged}")
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items() if value)
    return [*told, f"- Training: {settings}"] if settings else told


def _evidence(facts: Mapping[str, Any]) -> list[str]:
    if facts["imported"]:
        claims = facts["imported"].get("claims") or "none"
        claims = claims if not claims.startswith("/") else claims.rstrip("/").rpartition("/")[2]
        return [
            "## Evidence",
            "",
            f"It was trained elsewhere and measured by no gate here. Its config named as base: {claims}",
        ]
    gate = facts["gate"]
    said = "No gate has decided on it."
    if gate is not None:
        word = gate["decision"].replace("_", " ")
        said = f"Round {gate['round']} of {gate['run']} ({gate['domain']}): {word}. {gate['reason'] or ''}"
    simulated = (
        ["Simulated: no real model was trained or measured.", ""] if facts["simulated"] else []
    )
    return ["## Evidence", "", *simulated, _line(said), *_table(facts["scores"])]


def _table(scores: list[dict[str, Any]]) -> list[str]:
    if not scores:
        return []
    names = "tasks", "n", "base", "best before", "this version", "95% interval"
    rows = ["", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for one in scores:
        interval = f"{_share(one['low'])} to {_share(one['high'])}"
        rows.append(
            f"| {SPLITS[one['split']]} | {one['n']} | {_share(one['base'])} "
            f"| {_share(one['before'])} | {_share(one['mean'])} | {interval} |"
        )
    return rows


def _files(facts: Mapping[str, Any]) -> list[str]:
    rows = [f"| {one['name']} | {one['size_bytes']} | {one['sha256']} |" for one in facts["files"]]
    told = "SHA-256 of the files of this folder are in manifest.json; of the adapter as trained:"
    return ["## Hashes", "", told, "", "| file | bytes | SHA-256 |", "|---|---|---|", *rows]


def _loading(base: Mapping[str, Any], merged: str | None) -> list[str]:
    if merged:
        return [
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
            f'model = AutoModelForCausalLM.from_pretrained("FOLDER", dtype="{merged}")',
        ]
    revision = f', revision="{base["revision"]}"' if base["revision"] else ""
    return [
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{base["name"]}"{revision})',
        f'model = AutoModelForCausalLM.from_pretrained("{base["name"]}"{revision})',
        'model = PeftModel.from_pretrained(model, "FOLDER")',
    ]


def _asking(facts: Mapping[str, Any]) -> list[str]:
    if not facts["system"]:
        return []
    return ["", "It was measured with this system prompt:", "", f"> {_line(facts['system'])}"]


def _line(text: str) -> str:
    return " ".join(text.split())


def _share(value: float | None) -> str:
    return "—" if value is None else f"{value:.1%}"
