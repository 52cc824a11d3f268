"""Base models of one home, added and removed: what the model commands ask of the engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.models import bases, hub
from engine.models.bases import Progress, Say


@dataclass(kw_only=True, slots=True, frozen=True)
class BaseFiles:
    """Works on the files of a home alone; what is refused is a ValueError that says what to do."""

    models: Path

    def add_folder(
        self, name: str, folder: Path, link: bool, say: Say, progress: Progress
    ) -> dict[str, Any]:
        """Take in a folder of this machine, copied or linked."""
        origin = {"source": f"folder {folder}"}
        wanted = bases.Wanted(name=name, folder=folder, origin=origin, link=link)
        return bases.add_base(self.models, wanted, say, progress)

    def add_from_hub(
        self,
        name: str,
        repository: str,
        revision: str,
        token_env: str | None,
        say: Say,
        progress: Progress,
    ) -> dict[str, Any]:
        """Fetch a repository at one commit and take it in; a second try goes on with the first."""
        bases.check_name(self.models, name)
        folder = hub.fetch(self.models, repository, revision, token_env, say, progress)
        origin = {
            "source": f"hub {repository} at {revision}",
            "hub": repository,
            "hub_revision": revision,
        }
        wanted = bases.Wanted(name=name, folder=folder, origin=origin, link=True)
        made = bases.add_base(self.models, wanted, say)
        hub.forget(folder)
        return made

    def list_all(self) -> list[dict[str, Any]]:
        """Every base model by name, without reading its weights."""
        return bases.describe_bases(self.models)

    def unfinished(self) -> list[dict[str, Any]]:
        """Downloads that broke, each with its folder."""
        return hub.unfinished(self.models)

    def remove(self, name: str) -> int:
        """Delete one; the bytes that are free again."""
        return bases.remove_base(self.models, name)
