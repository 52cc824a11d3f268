"""Who asks: the authenticated identity behind a call."""

from dataclasses import dataclass

from app.errors import AccessDenied

READ = "read"
CAPABILITIES = frozenset(
    {READ, "training.run", "training.stop", "inference.use", "deploy", "admin"}
)
ROLES: dict[str, frozenset[str]] = {
    "viewer": frozenset({READ}),
    "developer": CAPABILITIES - {"admin"},
    "admin": CAPABILITIES,
}


@dataclass(kw_only=True, slots=True, frozen=True)
class Caller:
    """An identity with its project and what it may do."""

    actor: str  # "owner", "key:automation"
    workspace_id: str
    project_id: str
    capabilities: frozenset[str]
    user_id: str | None = None  # the person, when one is signed in; keys stand for nobody
    sign_in: str | None = None  # which of the person's sign-ins this is
    key_id: str | None = None

    def need(self, capability: str) -> None:
        """AccessDenied unless this caller has the capability."""
        if capability not in self.capabilities:
            raise AccessDenied(f"{self.actor} lacks the capability {capability}")
