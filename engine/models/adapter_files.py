"""The adapters of one home as files: what the checkpoint commands ask of the engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data.disk import is_full
from data.home import Home
from engine.errors import ModelUnavailable
from engine.models import adapter_export, adapter_import
from engine.models.origin import origin_of
from engine.models.registry import EMBEDDED, ensure_embedded
from engine.types import ModelRef


class AdapterFiles:
    """Works on the files of a home alone; what is refused is a ValueError that says what to do.

    `gguf` is the embedded model's file, which that base is made of where it is not there yet.
    """

    def __init__(self, home: Home, gguf: Path, gguf_sha256: str) -> None:
        self._home, self._gguf, self._sha256 = home, gguf, gguf_sha256

    def take(self, folder: Path, base: str) -> dict[str, Any]:
        """Copy an adapter into the home; what was found out about it."""
        with _refused():
            return adapter_import.take(folder, self._home.checkpoints, self._base(base))

    def origin(self, base: str) -> dict[str, Any]:
        """What a base is called elsewhere."""
        with _refused():
            return asdict(origin_of(Path(self._base(base).path)))

    def copy(self, checkpoint: str, target: Path) -> int:
        """Write the files as they are, hashes verified; bytes written."""
        with _refused():
            return adapter_export.export_files(self._home.checkpoints / checkpoint, target)

    def adapter(self, checkpoint: str, base: str, target: Path, card: str) -> int:
        """Write the adapter with a card, for use anywhere; bytes written."""
        folder = self._home.checkpoints / checkpoint
        with _refused():
            return adapter_export.export_adapter(folder, self._fitting(folder, base), target, card)

    def merged(self, checkpoint: str, base: str, target: Path, card: str, dtype: str) -> int:
        """Write base and adapter as one model in that precision; bytes written."""
        folder, log = self._home.checkpoints / checkpoint, self._home.logs / "merge.log"
        with _refused():
            ref = self._fitting(folder, base)
            return adapter_export.export_merged(folder, ref, target, card, log, dtype)

    def dtype_of(self, checkpoint: str, base: str) -> str:
        """The precision in which a merged model answers as it was measured."""
        with _refused():
            return adapter_export.merged_dtype(
                self._home.checkpoints / checkpoint, self._base(base)
            )

    def _base(self, name: str) -> ModelRef:
        if name == EMBEDDED:
            return ensure_embedded(self._home.models, self._gguf, self._sha256)
        return adapter_import.find_own_base(self._home.models, name)

    def _fitting(self, adapter: Path, name: str) -> ModelRef:
        base = self._base(name)
        adapter_export.check_made_for(adapter, base)
        return base


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except ModelUnavailable as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        if is_full(error):
            raise ValueError("the disk is full: free some space, then try again") from None
        raise ValueError(f"{error.filename}: {error.strerror}") from None
