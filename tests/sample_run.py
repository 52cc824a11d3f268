"""Fills a store with runs as the engine writes them: finished, running, simulated, and small ones.

Scores are drawn from a fixed seed and compared with the engine's own statistics, so that means,
intervals and gates fit together.
"""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sqlmodel import Session

from app.access import PROJECT, WORKSPACE
from data.store import Store
from data.tables import (
    Account,
    Audit,
    Checkpoint,
    Directive,
    Evaluation,
    Event,
    Harness,
    Job,
    Lease,
    Live,
    ModelCall,
    Round,
    Run,
    Steer,
    Step,
    TrainingRow,
    TrainPoint,
    Version,
)
from engine.statistics import compare, estimate
from engine.types import as_dict

MODEL = "SmolLM2-135M-Instruct"
HARNESS = "harness-1"
DEV_N, BLIND_N, HELD_OUT_N, GUARD_N = 240, 400, 160, 120
Scores = dict[str, float | None]


def fill(store: Store) -> None:
    """Every sample run, newest last; the project must be there (`Access.ensure_owner`)."""
    for add in (small_runs, simulated_run, finished_run, running_run):
        store.write(add)


def finished_run(session: Session, run_id: str = "arith-carry-1") -> None:
    """Two live rounds: one promoted, one inconclusive; every figure is there."""
    _run(session, run_id, state="finished", round=2, rounds_target=2, best_version="candidate-1")
    session.get_one(Run, run_id).reason = "2 rounds, 1 promoted"
    _rounds_of_carry(session, run_id)
    _events(session, run_id)
    _losses(session, run_id, 345)
    session.add(
        Steer(
            id=f"{run_id}-steer-1",
            project_id=PROJECT,
            run=run_id,
            text="Prefer long carry chains.",
            author="owner",
            status="delivered",
            round=1,
            created_at=ago(minutes=70),
            delivered_at=ago(minutes=69),
        )
    )
    _steps(session, run_id, 2, ("prepare", "diagnose", "admit", "train", "blind", "gate"))
    _costs(session, run_id)


def running_run(session: Session, run_id: str = "arith-carry-2") -> None:
    """In round 2, training; holds the device."""
    _run(session, run_id, state="running", round=2, rounds_target=5, best_version="candidate-1")
    _rounds_of_carry(session, run_id, second_open=True)
    _events(session, run_id)
    live = Live(run=run_id, round=2, phase="train", role="student", tool="train", text="steps")
    live.done, live.total, live.started_at = 212, 345, ago(seconds=73)
    live.first_done, live.first_at = 0, live.started_at
    session.add(live)
    _losses(session, run_id, 212)
    steers = [("steer-1", "Keep at least 20% replay rows.", "delivered", 2), ("steer-2", "", "", 0)]
    for number, (steer_id, said, status, round_) in enumerate(steers):
        session.add(
            Steer(
                id=f"{run_id}-{steer_id}",
                project_id=PROJECT,
                run=run_id,
                text=said or "Try a smaller learning rate next round.",
                author="owner",
                status=status or "queued",
                round=round_ or None,
                created_at=ago(minutes=10 - number),
                delivered_at=ago(minutes=9) if status else None,
            )
        )
    _costs(session, run_id)
    session.add(Lease(project_id=PROJECT, device="CPU", run=run_id, round=2, purpose="train"))
    session.flush()
    account = session.get_one(Account, f"run:{run_id}")
    account.model_uncertain, account.model_reserved = 30_000, 60_000
    session.add(account)
    said = "Keep every answer to the number alone.\nNo worked steps."
    session.add(
        Directive(id=f"{run_id}-dir-1", project_id=PROJECT, run=run_id, text=said, author="owner")
    )
    _steps(session, run_id, 2, ("prepare", "diagnose", "admit"))


def simulated_run(session: Session, run_id: str = "carry-rehearsal-1") -> None:
    """A dry run with simulated models: everything in it is labelled so."""
    _run(
        session,
        run_id,
        mode="dry",
        simulated=True,
        base_model="sim/student",
        state="finished",
        round=1,
        rounds_target=1,
    )
    scores = {"base": _scores(DEV_N, 0.5, 31), "candidate-1": _scores(DEV_N, 0.5, 31)}
    for name, found in scores.items():
        _version(session, run_id, name, simulated=True)
        _evaluation(session, run_id, name, 0 if name == "base" else 1, "dev", found, simulated=True)
    round_ = _round(
        session, run_id, 1, "candidate-1", "base", "The simulated student does as told."
    )
    round_.outcome, round_.decision = "completed", "not_evaluated"
    round_.reason, round_.ended_at = "dry run: nothing was trained", ago(minutes=1)
    session.add(round_)
    event(session, run_id, 1, "round", "round 1: not evaluated, dry run: nothing was trained")


def small_runs(session: Session) -> None:
    """One run for each other state, as a list shows them."""
    reasons = {
        "starting": ("code-strings-1", "waits for the device, held by arith-carry-2"),
        "paused": ("spatial-grid-1", "interrupted: the server stopped; the run goes on"),
        "stopped": ("spatial-grid-2", "model cap $5.00 reached at $4.98 + $0.05 reserve"),
        "failed": ("arith-borrow-2", "Train: out of memory at batch 64. Try batch 16"),
    }
    for number, (state, (run_id, reason)) in enumerate(reasons.items()):
        at = ago(hours=30 - number)
        _run(session, run_id, state=state, reason=reason, round=0, created_at=at, updated_at=at)
    session.flush()
    account = session.get_one(Account, "run:spatial-grid-2")
    account.model_settled = 4_980_000
    session.add(account)


def hostile_run(session: Session, text: str, run_id: str = "hostile-1") -> None:
    """A run in which everything that a model or person writes is `text`."""
    _run(session, run_id, state="paused", reason=text, brief=text, round=1)
    row = _round(session, run_id, 1, "candidate-1", "base", text)
    row.outcome, row.decision, row.reason = "completed", "reject", text
    said = [{"id": "s", "text": text}]
    cited = [{"id": "s", "kind": "steer", "how": text}]
    row.plan = {"planner": text, "hypothesis": text, "steers": said, "followed": cited}
    session.add(row)
    _version(session, run_id, "base")
    event(session, run_id, 1, "message", text, role="operator")
    session.add(
        Steer(id=f"{run_id}-s", project_id=PROJECT, run=run_id, text=text, author=text[:60])
    )
    session.add(
        Directive(id=f"{run_id}-d", project_id=PROJECT, run=run_id, text=text, author=text[:60])
    )
    _audit(session, run_id, 1, "leak", "rejected", text)


def event(
    session: Session, run: str, seq: int, kind: str, text: str, role: str = "engine", age: int = 0
) -> None:
    """One line of the live view, `age` seconds old."""
    session.add(Event(run=run, seq=seq, kind=kind, text=text, role=role, at=ago(seconds=age)))


def ago(**span: float) -> str:
    """A moment before now, as the tables write it."""
    moment = datetime.now(UTC) - timedelta(**span)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _run(session: Session, run_id: str, **fields: Any) -> None:
    row = Run(
        id=run_id,
        project_id=PROJECT,
        workspace_id=WORKSPACE,
        actor=fields.pop("actor", "owner"),
        brief=fields.pop("brief", "Learn sums that carry."),
        domain="arith",
        mode=fields.pop("mode", "live"),
        base_model=fields.pop("base_model", MODEL),
        limits={"max_model_cost_usd": 5.0},
        secret="0" * 64,
        **fields,
    )
    session.add(row)
    if session.get(Harness, HARNESS) is None:
        session.add(Harness(id=HARNESS, project_id=PROJECT, spec={}))
    account = Account(id=f"run:{run_id}", project_id=PROJECT, device_ms=3_528_000)
    account.model_settled = 0 if row.simulated else 1_050_000
    session.add(account)
    session.flush()


def _rounds_of_carry(session: Session, run: str, *, second_open: bool = False) -> None:
    dev = {"base": _scores(DEV_N, 0.21, 1), "candidate-1": _scores(DEV_N, 0.43, 1)}
    dev["candidate-2"] = _scores(DEV_N, 0.445, 1)
    _version(session, run, "base")
    _evaluation(session, run, "base", 0, "dev", dev["base"])
    _promoted_round(session, run, dev)
    if second_open:
        _round(session, run, 2, None, "candidate-1", "Longer carry chains; 62 of 120 fail there.")
    else:
        _inconclusive_round(session, run, dev)


def _promoted_round(session: Session, run: str, dev: dict[str, Scores]) -> None:
    _version(session, run, "candidate-1", trained_rows=1712)
    _evaluation(session, run, "candidate-1", 1, "dev", dev["candidate-1"])
    sizes = {"blind": (BLIND_N, 0.2, 0.42), "held_out": (HELD_OUT_N, 0.13, 0.26)}
    sizes["guard"] = (GUARD_N, 0.81, 0.76)
    blind: dict[str, Any] = {}
    for seed, (split, (n, before, after)) in enumerate(sizes.items(), 2):
        best, candidate = _scores(n, before, seed), _scores(n, after, seed, missing=2 * (n > 300))
        _evaluation(session, run, "base", 1, split, best)
        _evaluation(session, run, "candidate-1", 1, split, candidate)
        blind[split] = as_dict(compare(best, candidate))
    row = _round(
        session, run, 1, "candidate-1", "base", "Answer format and single carries come first."
    )
    row.rows, row.outcome, row.decision = 1712, "completed", "promote"
    row.reason = f"blind {points(blind['blind'])}, p below 0.0001"
    row.ended_at = ago(minutes=46)
    row.evidence = {
        "blind": blind,
        "checks": _checks(blind),
        "rule": {"alpha": 0.0304, "min_gain": 0.02, "noise": 0.004, "tolerance": 0.05},
        "dev": as_dict(compare(dev["base"], dev["candidate-1"])),
        "against_base": as_dict(compare(dev["base"], dev["candidate-1"])),
        "candidate": "candidate-1",
        "best": "base",
    }
    session.add(row)
    _admission(session, run)
    for kind in ("data", "leak", "train", "dev", "guard"):
        _audit(session, run, 1, kind, "approved", "no overlap with hidden sets")
    for number, (family, source, count) in enumerate(
        (("sums", "student", 58), ("sums", "generator", 37), ("products", "student", 20))
        + (("replay", "replay", 41),)
    ):
        for item in range(count):
            session.add(_training_row(run, family, source, f"{number}-{item}"))


def _admission(session: Session, run: str) -> None:
    """How the tasks of round 1 became rows."""
    _evaluation(session, run, "base", 1, "train", _scores(380, 0.2, 9))
    left_out = {"duplicate": 272, "enough of the task": 0, "mastered": 31, "family full": 97}
    counts = {"rows": 1712, "trained": 1712, "candidates": 1700, "left_out": left_out}
    counts["by_source"] = {"student": 900, "generator": 400, "replay": 412}
    step = Step(run=run, round=1, step="admit", epoch=1, status="done", ended_at=ago(minutes=80))
    step.result = counts | {"text": "1,712 rows, 24% replay"}
    session.add(step)


def _inconclusive_round(session: Session, run: str, dev: dict[str, Scores]) -> None:
    _version(session, run, "candidate-2", trained_rows=1486)
    _evaluation(session, run, "candidate-2", 2, "dev", dev["candidate-2"])
    row = _round(session, run, 2, "candidate-2", "candidate-1", "More two-carry rows, same format.")
    row.rows, row.outcome, row.decision = 1486, "completed", "inconclusive"
    paired = as_dict(compare(dev["candidate-1"], dev["candidate-2"]))
    row.reason = f"not proven better than candidate-1 on dev: {points(paired)}, n {DEV_N}"
    row.ended_at = ago(minutes=2)
    against_base = as_dict(compare(dev["base"], dev["candidate-2"]))
    row.evidence = {"dev": paired, "against_base": against_base}
    session.add(row)
    _audit(session, run, 2, "leak", "error", "RuntimeError: the index is not there (examine)")


def _checks(blind: dict[str, Any]) -> list[dict[str, Any]]:
    texts = {
        "enough tasks": "400 blind tasks in common, at least 100 needed",
        "coverage": "99.5% of 402 scored for both, at least 98% needed",
        "audits": "5 approved or not applicable",
        "held-out": f"{points(blind['held_out'])}, a drop of up to 5 points is tolerated",
        "guard": f"{points(blind['guard'])}, a drop of up to 5 points is tolerated",
        "gain": f"{points(blind['blind'])}, at least 2.0 points needed",
        "significance": "p below 0.0001 (exact McNemar, one-sided), alpha 0.0304",
    }
    return [
        {"name": name, "ok": True, "text": text, "otherwise": "reject"}
        for name, text in texts.items()
    ]


def points(figures: dict[str, Any]) -> str:
    """A difference as the engine's reasons write it: +19.8 points [+15.9, +23.8]."""
    value, low, high = (
        f"{100 * figures[name]:+.1f}".replace("-", "−") for name in ("difference", "low", "high")
    )
    return f"{value} points [{low}, {high}]"


def _round(
    session: Session, run: str, number: int, candidate: str | None, start: str, hypothesis: str
) -> Round:
    row = Round(
        project_id=PROJECT,
        run=run,
        number=number,
        start_version=start,
        candidate=candidate,
        hypothesis=hypothesis,
        started_at=ago(minutes=90 / number),
        plan={
            "planner": "built-in",
            "hypothesis": hypothesis,
            "method": "LoRA on verified answers",
            "families": {"sums": {"tasks": 280, "strata": {}}, "products": {"tasks": 120}},
            "because": [{"family": "sums", "difficulty": "one carry", "right": 4, "n": 20}],
            "settings": {"replay_share": 0.25, "learning_rate": 0.001, "epochs": 1.0},
            "steers": [{"id": f"{run}-steer-1", "text": "Prefer long carry chains."}],
            "followed": [
                {"id": f"{run}-steer-1", "kind": "steer", "how": "more tasks of that kind"}
            ],
        },
    )
    session.add(row)
    session.add(
        Job(
            id=f"{run}-r{number}",
            project_id=PROJECT,
            run=run,
            round=number,
            type="train",
            status="completed" if candidate else "running",
            labels={"rsi_run": run, "rsi_round": str(number), "rsi_purpose": "train candidate"},
            bookkeeping=True,
            created_at=row.started_at,
        )
    )
    session.flush()
    return row


def _version(
    session: Session, run: str, name: str, trained_rows: int | None = None, simulated: bool = False
) -> None:
    adapter = None if name == "base" else f"9f3e{name[-1]}c0ffee"
    if adapter and session.get(Checkpoint, adapter) is None:
        figures = {"base_model": MODEL, "base_revision": "5a2c", "size_bytes": 1}
        session.add(Checkpoint(id=adapter, project_id=PROJECT, run=run, **figures))
    session.add(
        Version(
            project_id=PROJECT,
            run=run,
            name=name,
            role="baseline" if name == "base" else "candidate",
            round=None if name == "base" else int(name[-1]),
            base_model=MODEL,
            base_revision="5a2c",
            adapter=adapter,
            harness=HARNESS,
            version_hash=f"b41f02d7{name}",
            trained_rows=trained_rows,
            simulated=simulated,
        )
    )


def _evaluation(
    session: Session,
    run: str,
    version: str,
    round_: int,
    split: str,
    scores: Scores,
    simulated: bool = False,
) -> None:
    known = [score for score in scores.values() if score is not None]
    found = estimate(known)
    session.add(
        Evaluation(
            project_id=PROJECT,
            run=run,
            round=round_,
            version=version,
            version_hash=f"b41f02d7{version}",
            suite="guard" if split == "guard" else "arith",
            split=split,
            protocol_hash=f"7c1e90ab{split}" + (str(round_) if split == "blind" else ""),
            planned=len(scores),
            scored=len(known),
            mean=found.mean,
            low=found.low,
            high=found.high,
            conservative=sum(known) / len(scores),
            families={"sums": {"mean": found.mean, "n": len(known)}},
            simulated=simulated,
        )
    )


def _scores(n: int, right: float, seed: int, missing: int = 0) -> Scores:
    """0 or 1 for n tasks; a seed makes most tasks as hard for every version, so that pairs tell."""
    shared, own = Random(seed), Random(f"{seed} {right}")
    draws = [(shared.random(), own.random(), own.random()) for _ in range(n)]
    hard = [other if whose < 0.35 else common for common, other, whose in draws]
    found: Scores = {f"task-{i}": float(one < right) for i, one in enumerate(hard)}
    return found | {f"lost-{i}": None for i in range(missing)}


def _training_row(run: str, family: str, source: str, name: str) -> TrainingRow:
    return TrainingRow(
        project_id=PROJECT,
        run=run,
        round=1,
        family=family,
        stratum="one carry",
        source=source,
        messages=[{"role": "user", "content": "17 + 25 = ?"}],
        completion="42",
        row_hash=f"{run}-{name}",
    )


def _audit(session: Session, run: str, round_: int, kind: str, verdict: str, text: str) -> None:
    session.add(
        Audit(
            project_id=PROJECT,
            run=run,
            round=round_,
            type=kind,
            version=f"candidate-{round_}",
            phase="admit",
            verdict=verdict,
            reasons=[{"code": "R", "text": text}, {"code": "N", "text": f"checked for {run}"}],
        )
    )


def _events(session: Session, run: str) -> None:
    told = [
        ("message", "engine", "run started"),
        ("round", "engine", "round 1 of 2 starts"),
        ("tool_call", "operator", "plan: answer format and single carries come first"),
        ("steer", "operator", "steer-1 delivered"),
        ("tool_result", "student", "collect: 1600 samples, 31.2% right"),
        ("tool_result", "verifier", "admit: 1,712 of 2,112 rows kept, 272 duplicates"),
        ("job", "engine", "train, round 1: running on the CPU"),
        ("message", "student", "step 40 of 345, loss 1.212"),
        ("error", "teacher", "provider error, 2 of 96 calls, both retried"),
        ("round", "engine", "round 1: promote, blind +21.5 points, p below 0.0001"),
        ("round", "engine", "round 2 of 2 starts"),
        ("message", "student", "step 212 of 345, loss 0.412"),
    ]
    for seq, (kind, role, text) in enumerate(told, 1):
        event(session, run, seq, kind, text, role, age=2 + 45 * (len(told) - seq) ** 2)


def _losses(session: Session, run: str, steps: int) -> None:
    for step in range(1, steps + 1, 2):
        loss = 0.35 + 1.2 * 0.985**step + 0.1 * Random(step).random()
        session.add(TrainPoint(run=run, round=2, step=step, loss=loss, seconds=step / 3))


def _costs(session: Session, run: str) -> None:
    """121 calls answered, one of unknown outcome; device time of both rounds and before them."""
    for number in range(124):
        status = {121: "uncertain", 122: "failed", 123: "sent"}.get(number, "answered")
        operator = number < 14
        call = ModelCall(
            project_id=PROJECT,
            run=run,
            round=1 if number < 90 else 2,
            step="plan" if operator else "collect",
            call_key=str(number),
            role="operator" if operator else "teacher",
            model="planner-large" if operator else "teacher-large",
            request_hash="0",
            status=status,
        )
        if status == "answered":
            call.cost = 8_430 if number < 120 else 8_400
            call.usage = {"input_tokens": 500, "cached_tokens": 300, "output_tokens": 90}
        elif status == "uncertain":
            call.cost = 30_000
        session.add(call)
    held = [(0, "prepare", 322), (1, "diagnose", 61), (1, "collect", 690), (1, "train", 1421)]
    held += [(1, "develop", 301), (1, "blind", 412), (2, "diagnose", 60), (2, "collect", 261)]
    for round_, purpose, seconds in held:
        lease = Lease(project_id=PROJECT, device="CPU", run=run, round=round_, purpose=purpose)
        lease.active_ms, lease.state = 1000 * seconds, "ended"
        session.add(lease)
        session.flush()
    account = session.get_one(Account, f"run:{run}")
    account.requests = 124
    session.add(account)


def _steps(session: Session, run: str, round_: int, done: tuple[str, ...]) -> None:
    texts = {
        "prepare": "0.204 on dev, n 240, noise 0.004",
        "diagnose": "62 of 120 wrong, 5 families",
        "admit": "1,712 rows, 24% replay",
        "train": "345 steps, loss 1.52 to 0.41",
        "blind": "398 of 400 blind tasks scored for both",
        "gate": "promote",
    }
    for step in done:
        session.add(
            Step(
                run=run,
                round=0 if step == "prepare" else round_,
                step=step,
                epoch=1,
                status="done",
                result={"text": texts[step]},
                ended_at=ago(minutes=5),
            )
        )
