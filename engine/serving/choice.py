"""Which engine serves a base here, and how its process is made."""

import logging
from functools import partial
from pathlib import Path

from data.engines import INSTALL, choose_engine, find_vllm
from data.home import Home
from data.settings import setting
from data.store import Store
from engine.errors import EndpointNotReady
from engine.models.memory import serving_need
from engine.models.worker_engine import WorkerEngine
from engine.needs import config_of
from engine.precision import keep_precision, kept_precision
from engine.resources import child_records
from engine.serving.places import Places
from engine.types import Host

log = logging.getLogger(__name__)

TOKENS = 2048  # of a conversation whose memory is reckoned with


def make_host(store: Store, home: Home, places: Places) -> Host:
    """A host that is not started yet, of the engine that the setting `engine` means here."""
    device = places.serve_device
    vllm = find_vllm(home.path)
    with store.read() as session:
        choice = choose_engine(setting(session, "engine"), vllm, device != "cpu")
    record, forget = child_records(store, "serving")
    if choice.engine == "worker":
        from engine.serving.worker_host import WorkerHost

        return WorkerHost(
            log_dir=home.logs / "serving",
            device=device,
            precision=kept_precision(home.path, device),
            measured=partial(keep_first, home.path, device),
            record_child=record,
            forget_child=forget,
        )
    if vllm is None:
        raise EndpointNotReady(f"the setting engine is vllm, and it is not installed: {INSTALL}")
    from engine.serving.vllm_host import vllm_host

    return vllm_host(
        vllm,
        log_dir=home.logs,
        device=device,
        cards=places.visible_cards,
        tensor_parallel=places.tensor_parallel,
        spare=places.spare_bytes,
        record_child=record,
        forget_child=forget,
    )


def need_of(home: Home, base: str, device: str) -> int | None:
    """Bytes that serving a base takes on a device; None where its sizes are not known."""
    config = config_of(home.models, base)
    if config is None:
        return None
    kind = device.partition(":")[0]
    usual = "float32" if kind == "cpu" else "bfloat16"
    precision = kept_precision(home.path, device) or usual
    try:
        need = serving_need(config, rows=1, length=TOKENS, device=kind, precision=precision)
    except (ValueError, KeyError):
        return None
    return need.total


def keep_first(home: Path, device: str, engine: WorkerEngine) -> None:
    """Keep the precision that an engine has measured, unless one is kept already."""
    if engine.process.precision is None or kept_precision(home, device) is not None:
        return
    try:
        keep_precision(home, device, engine)
    except OSError:
        log.exception("the precision that was measured is not kept")
