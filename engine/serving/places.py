"""The devices that this server trains and serves on, as people set them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session

from data.settings import setting
from engine.errors import NeedsMending

SET = "python3 run.py setting set"


@dataclass(kw_only=True, slots=True, frozen=True)
class Places:
    """Devices by torch's names: "cpu", "cuda:0". Serving in vLLM takes `tensor_parallel` cards in a
    row, from its own on, and leaves `spare_bytes` of each to training."""

    train_device: str
    serve_device: str
    tensor_parallel: int = 1
    spare_bytes: int = 0

    @property
    def serve_devices(self) -> list[str]:
        """Every device that serving uses."""
        if self.serve_device == "cpu":
            return ["cpu"]
        first = card_index(self.serve_device)
        return [f"cuda:{first + number}" for number in range(self.tensor_parallel)]

    @property
    def shared(self) -> bool:
        """Whether training and serving meet on a device."""
        return self.train_device in self.serve_devices

    @property
    def visible_cards(self) -> str:
        """CUDA_VISIBLE_DEVICES for the process that serves: a part of this process's own."""
        if self.serve_device == "cpu":
            return ""
        wanted = [card_index(name) for name in self.serve_devices]
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        cards = given.split(",") if given else [str(number) for number in range(wanted[-1] + 1)]
        return ",".join(cards[number].strip() for number in wanted if number < len(cards))


def read_places(session: Session, usual: str) -> Places:
    """What the settings say; `usual` is the device where they say nothing."""
    train = normal(setting(session, "train_device", usual))
    serve = normal(setting(session, "serve_device", train))
    return Places(
        train_device=train,
        serve_device=serve,
        tensor_parallel=int(setting(session, "tensor_parallel", "1")),
    )


def check_places(places: Places, devices: Sequence[str]) -> None:
    """NeedsMending when a device is set that this machine does not have."""
    there = ", ".join(devices)
    if places.train_device not in devices:
        raise NeedsMending(
            f"train_device is {places.train_device}, and this machine has {there}: "
            f"{SET} train_device {devices[0]}"
        )
    missing = [name for name in places.serve_devices if name not in devices]
    if not missing:
        return
    if places.serve_device in missing:
        mend = f"{SET} serve_device {devices[0]}"
        text = f"serve_device is {places.serve_device}, and this machine has {there}: {mend}"
    else:
        text = (
            f"tensor_parallel is {places.tensor_parallel} from {places.serve_device} on, "
            f"and this machine has {there}: {SET} tensor_parallel 1"
        )
    raise NeedsMending(text)


def normal(device: str) -> str:
    """The full name of a device: "cuda" is the first card."""
    return "cuda:0" if device == "cuda" else device


def card_index(device: str) -> int:
    """Which of the visible cards it is, from 0."""
    return int(normal(device).removeprefix("cuda:"))
