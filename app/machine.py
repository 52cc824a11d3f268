"""The machine that works on runs: who holds its device, and who waits for it."""

from sqlmodel import Session, col, select

from app import shapes
from app.caller import Caller
from data.tables import INSERTED, Lease, Run

WAITS = "waits for the device"  # how the engine begins the reason of a run that must wait


def device(session: Session, caller: Caller, name: str) -> shapes.Device:
    """The device, its holder and the runs that wait, longest first."""
    held = session.exec(select(Lease).where(Lease.state == "held")).first()
    waits = col(Run.reason).startswith(WAITS)
    query = select(Run.id).where(waits, col(Run.state).in_(("starting", "running")))
    return shapes.Device(
        name=name,
        purpose=held.purpose if held else None,
        run=held.run if held else None,
        waiting=list(session.exec(query.order_by(INSERTED))),
    )
