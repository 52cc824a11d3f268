"""The machine that works on runs: who holds its devices, who waits and why, and what memory it has."""

from typing import Any, Protocol

from sqlmodel import Session, col, or_, select

from app import shapes
from app.caller import Caller
from app.errors import Conflict, InvalidRequest
from app.hand_results import is_simulated
from app.start_fields import Checked
from data.tables import INSERTED, Job, Lease, Run
from recipes.presets import load_preset, preset_names

WAITS = "waits"  # how the engine begins the reason of what must wait
FOR_DEVICE = f"{WAITS} for the device"
AWAKE = ("waking", "ready")
SERVING = "serving"  # how the purpose of a deployed version's lease begins


class Machine(Protocol):
    """What the engine lends of the machine: facts that no row holds, since nobody writes them."""

    def look(self) -> list[dict[str, Any]]:
        """Every device in use, as in shapes.DeviceMemory."""
        ...

    def devices(self) -> list[str]:
        """Every device by torch's name: cuda:0, cpu."""
        ...

    def ahead(self, domain: str, base_model: str, config: dict[str, Any]) -> dict[str, Any] | None:
        """What a run takes, as in shapes.MemoryAhead; None when nobody knows."""
        ...

    def refuses(self, domain: str, base_model: str, config: dict[str, Any]) -> str | None:
        """Why a run can never begin here; None when it can."""
        ...


def device(
    session: Session, caller: Caller, name: str, machine: Machine | None = None
) -> shapes.Device:
    """The machine as it stands; what is another project's is shown without its name."""
    holders = [*_leases(session, caller), *_serving(session, caller)]
    waits = [*_waiting_runs(session, caller), *_waiting_jobs(session, caller)]
    first = holders[0] if holders else None  # a phase, if there is one
    named = [one.run or one.job for one in waits if one.why.startswith(FOR_DEVICE)]
    return shapes.Device(
        name=name,
        purpose=first.purpose if first else None,
        run=first.run if first else None,
        waiting=[one for one in named if one is not None],
        holders=holders,
        waits=waits,
        memory=[shapes.DeviceMemory(**one) for one in machine.look()] if machine else [],
    )


def check_memory(checked: Checked, machine: Machine | None) -> None:
    """Conflict, with the figures, when a live run can never have the memory that it needs."""
    if machine is None or checked.fields.dry_run or checked.base_model is None:
        return
    why = machine.refuses(checked.domain, checked.base_model, checked.config)
    if why is not None:
        raise Conflict(why, "UNSUPPORTED_HARDWARE")


def memory_ahead(
    machine: Machine | None, preset: str, domain: str | None, base_model: str | None
) -> shapes.MemoryAhead | None:
    """What a live run of a preset takes; None when nobody knows."""
    if preset not in preset_names():
        raise InvalidRequest(f"preset: {preset!r} is not one of {preset_names()}")
    config = load_preset(preset) | {"preset": preset}
    learned = domain or config.get("domain", "arith")
    base = base_model or config.get("base_model")
    if machine is None or base is None or learned != config.get("domain", learned):
        return None
    found = machine.ahead(learned, base, config)
    return shapes.MemoryAhead(**found) if found else None


def _leases(session: Session, caller: Caller) -> list[shapes.DeviceHolder]:
    """Phases that are under way; leases of processes that serve are told by their jobs."""
    query = select(Lease).where(
        Lease.state == "held", ~col(Lease.purpose).startswith(f"{SERVING} ")
    )
    held = session.exec(query.order_by(col(Lease.id)))
    return [
        shapes.DeviceHolder(
            device=lease.device,
            purpose=lease.purpose,
            run=_own(caller, lease, lease.run),
            job=_own(caller, lease, lease.job),
            since=lease.started_at,
            simulated=_is_simulated(session, lease),
        )
        for lease in held
    ]


def _is_simulated(session: Session, lease: Lease) -> bool:
    run = session.get(Run, lease.run) if lease.run else None
    job = session.get(Job, lease.job) if lease.job else None
    return bool(run and run.simulated) or bool(job and is_simulated(job))


def _serving(session: Session, caller: Caller) -> list[shapes.DeviceHolder]:
    """Deployed versions that hold memory: those that sleep, or are paused, do not."""
    query = select(Job).where(Job.type == "inference", Job.status == "running")
    awake = [job for job in session.exec(query) if job.result.get("state") in AWAKE]
    leases = select(Lease.job, Lease.device).where(
        Lease.state == "held", col(Lease.purpose).startswith(f"{SERVING} ")
    )
    places = dict(session.exec(leases).all())  # one process answers for all of a base's versions
    place = next(iter(places.values()), "")
    return [
        shapes.DeviceHolder(
            device=places.get(job.id, place),
            purpose=f"{SERVING} {_own(caller, job, job.spec.get('version')) or 'a version'}",
            run=None,
            job=_own(caller, job, job.id),
            since=str(job.result.get("since") or job.updated_at),  # when it woke
        )
        for job in awake
    ]


def _waiting_runs(session: Session, caller: Caller) -> list[shapes.DeviceWait]:
    query = select(Run).where(
        col(Run.reason).startswith(f"{WAITS} "), col(Run.state).in_(("starting", "running"))
    )
    return [
        shapes.DeviceWait(
            run=_own(caller, run, run.id),
            job=None,
            why=_why(caller, run, run.reason),
            since=run.updated_at,
        )
        for run in session.exec(query.order_by(INSERTED))
    ]


def _waiting_jobs(session: Session, caller: Caller) -> list[shapes.DeviceWait]:
    query = select(Job).where(
        col(Job.run).is_(None),
        or_(Job.status == "queued", Job.status == "running"),
        col(Job.reason).startswith(f"{WAITS} "),
    )
    return [
        shapes.DeviceWait(
            run=None,
            job=_own(caller, job, job.id),
            why=_why(caller, job, job.reason),
            since=job.updated_at,
        )
        for job in session.exec(query.order_by(INSERTED))
    ]


def _why(caller: Caller, row: Run | Job, reason: str | None) -> str:
    """The reason, which may name what is another project's only to that project."""
    return _own(caller, row, reason) or FOR_DEVICE


def _own(caller: Caller, row: Run | Job | Lease, value: str | None) -> str | None:
    return value if row.project_id == caller.project_id else None
