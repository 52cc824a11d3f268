"""Settings of this server: their names, what they may hold, and the values in force."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic import BaseModel
from sqlmodel import Session, select

from app.caller import Caller
from app.errors import InvalidRequest
from app.timetable import (
    HOURS,
    PLACES,
    check_any_time,
    check_device,
    check_devices,
    check_hours,
    check_parallel,
)
from data.engines import ENGINES
from data.store import Store
from data.tables import GatewayModel, Setting, now

HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\]")
ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")

Proxy = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(kw_only=True, slots=True, frozen=True)
class Network:
    """How this server is reached: names it answers to, sites it trusts, proxies it believes."""

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    proxies: tuple[Proxy, ...] = ()
    root_path: str = ""


class SettingInfo(BaseModel):
    """A setting with its value; an empty one is not set."""

    name: str
    value: str
    about: str


class Settings:
    """Reads and writes settings. What is set acts at once: this process is the one writer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.network = self._read_network()
        self.devices: Callable[[], list[str]] | None = None  # those of the running server's machine

    def set(self, caller: Caller, name: str, value: str) -> SettingInfo:
        """Give a setting a value, "" for none; InvalidRequest says what it may hold."""
        caller.need("admin")
        if name not in KINDS:
            raise InvalidRequest(f"there is no setting {name}; there are {', '.join(KINDS)}")
        check, about = KINDS[name]
        checked = check(value.strip())
        if name == "default_student":
            self._check_model(checked)
        self._check_timetable(name, checked)
        self._store.write(partial(_put, name, checked))
        self.network = self._read_network()
        return SettingInfo(name=name, value=checked, about=about)

    def list_all(self, caller: Caller) -> list[SettingInfo]:
        """Every setting there is."""
        caller.need("admin")
        values = self._values()
        return [
            SettingInfo(name=name, value=values.get(name, ""), about=about)
            for name, (_, about) in KINDS.items()
        ]

    def _check_timetable(self, name: str, value: str) -> None:
        """A value that would leave rounds no time, or work no device, is refused."""
        values = self._values() | {name: value}
        if name in HOURS:
            check_any_time(values)
        if name in PLACES and self.devices is not None:
            check_devices(name, values, self.devices())

    def _check_model(self, name: str) -> None:
        """Later dry runs would all be refused for a model that nobody knows."""
        with self._store.read() as session:
            if name and session.get(GatewayModel, name) is None:
                known = ", ".join(session.exec(select(GatewayModel.name).limit(20)))
                raise InvalidRequest(
                    f"default_student: there is no model {name}; there are {known}"
                )

    def _values(self) -> dict[str, str]:
        with self._store.read() as session:
            return {row.name: row.value for row in session.exec(select(Setting))}

    def _read_network(self) -> Network:
        values = self._values()
        proxies = _words(values.get("trusted_proxies", ""))
        return Network(
            hosts=frozenset(_words(values.get("allowed_hosts", ""))),
            origins=frozenset(_words(values.get("allowed_origins", ""))),
            proxies=tuple(ipaddress.ip_network(one, strict=False) for one in proxies),
            root_path=values.get("root_path", ""),
        )


def check_hosts(value: str) -> str:
    """Host names without a port, separated by commas."""
    for host in _words(value):
        if not HOST_NAME.fullmatch(host):
            raise InvalidRequest(
                f"allowed_hosts: {host!r} is not a host name; give names without scheme and port, "
                "such as lab.example,10.0.0.7"
            )
    return ",".join(_words(value))


def _check_origins(value: str) -> str:
    for origin in _words(value):
        if not ORIGIN.fullmatch(origin):
            raise InvalidRequest(
                f"allowed_origins: {origin!r} is not an origin such as https://lab.example"
            )
    return ",".join(_words(value))


def _check_proxies(value: str) -> str:
    for proxy in _words(value):
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise InvalidRequest(
                f"trusted_proxies: {proxy!r} is not an address or network such as 127.0.0.1"
            ) from None
    return ",".join(_words(value))


def _check_root_path(value: str) -> str:
    path = value.rstrip("/")
    if not ROOT_PATH.fullmatch(path):
        raise InvalidRequest(f"root_path: {value!r} is not a path such as /lab")
    return path


def _check_queue_limit(value: str) -> str:
    if value and not re.fullmatch("[0-9]{1,4}", value):
        raise InvalidRequest(f"queue_limit: {value!r} is not a number from 0 to 9999")
    return value


def _check_idle(value: str) -> str:
    if value and not re.fullmatch(r"[1-9][0-9]{0,5}", value):
        raise InvalidRequest(f"endpoint_idle_minutes: {value!r} is not a whole number from 1 on")
    return value


def _check_engine(value: str) -> str:
    if value and value not in ENGINES:
        raise InvalidRequest(f"engine: {value!r} is none of {', '.join(ENGINES)}")
    return value


def _check_rate(value: str) -> str:
    if value and not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", value):
        raise InvalidRequest(f"device_usd_per_hour: {value!r} is not an amount such as 2.50")
    return value


KINDS: dict[str, tuple[Callable[[str], str], str]] = {
    "allowed_hosts": (check_hosts, "names under which this server is reached, besides loopback"),
    "allowed_origins": (_check_origins, "other sites whose pages may talk to this server"),
    "default_student": (str, "gateway model of a dry run that names none, instead of sim/student"),
    "device_usd_per_hour": (
        _check_rate,
        "what an hour of the device costs; it counts in max_cost_usd",
    ),
    "endpoint_idle_minutes": (
        _check_idle,
        "how long a deployed version may be of no use before it sleeps, instead of 10",
    ),
    "engine": (
        _check_engine,
        "what answers: worker, vllm, or auto (vllm where it is installed and there is a GPU)",
    ),
    "queue_limit": (_check_queue_limit, "live runs that may wait for the device, instead of 20"),
    "quiet_hours": (
        check_hours,
        "when no round may start: 22:00-07:00, Mon-Fri 08:00-18:00 by the local clock, or none",
    ),
    "root_path": (_check_root_path, "path below which a proxy shows the console, such as /lab"),
    "rounds_window": (check_hours, "the only hours in which rounds may start; none: any"),
    "serve_device": (
        check_device,
        "where deployed versions answer: cuda:0, cuda:1, cpu; none set: where is trained",
    ),
    "tensor_parallel": (
        check_parallel,
        "cards in a row, from serve_device on, that vLLM spreads a model over, instead of 1",
    ),
    "train_device": (
        check_device,
        "where is trained and measured: cuda:0, cuda:1, cpu; none set: the first card, else cpu",
    ),
    "trusted_proxies": (_check_proxies, "proxies whose X-Forwarded-For and -Proto are believed"),
}


def _words(value: str) -> list[str]:
    return [word for word in value.lower().replace(",", " ").split() if word]


def _put(name: str, value: str, session: Session) -> None:
    row = session.get(Setting, name) or Setting(name=name, value=value)
    row.value, row.updated_at = value, now()
    session.add(row)
