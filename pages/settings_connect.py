"""Settings, Connect: ready-made lines for agents, command line and scripts, with this server's URL."""

from urllib.parse import urlsplit

from app.access import Access
from app.service import Service
from pages import settings_parts as parts
from pages.frame import Visitor
from pages.parts import box, card, text

AT = "/settings/connect"


def connect_page(visitor: Visitor, service: Service, access: Access, url: str) -> None:
    """Build the page; `url` is where the visitor's browser reaches this server."""
    with parts.settings_frame(visitor, service, access, AT, "Connect"):
        text(
            "Each of these needs a key in the environment variable ENVLOOP_API_KEY: make one under "
            "Keys, or sign the published client in through the browser.",
            "pw-2",
            "p",
        )
        for title, about, lines in setups(url):
            with card(title), box("pw-cb"):
                text(about, "pw-2", "p")
                parts.copyable(lines)


def setups(url: str) -> list[tuple[str, str, str]]:
    """What can be connected: its name, one sentence, the lines."""
    mcp = f"{url}/v1/agent-runs/rsi/mcp"
    port = urlsplit(url).port or 443
    bearer = "Authorization: Bearer $ENVLOOP_API_KEY"
    codex = ["[mcp_servers.pawl]", f'url = "{mcp}"', 'bearer_token_env_var = "ENVLOOP_API_KEY"']
    shell = [f"export ENVLOOP_BASE_URL={url}", "export ENVLOOP_API_KEY=..."]
    shell += ["export no_proxy=127.0.0.1,localhost", "el job run list"]
    return [
        (
            "Claude Code",
            "Adds the MCP server; the agent then lists, starts, steers and stops runs.",
            f'claude mcp add --transport http pawl {mcp} --header "{bearer}"',
        ),
        (
            "Codex",
            "Put this into ~/.codex/config.toml; the key is read from the environment.",
            "\n".join(codex),
        ),
        (
            "The published client, signed in through the browser",
            "Opens a page here on which you type the code that the terminal shows.",
            f"el auth login --base-url {url}",
        ),
        (
            "Command line, by environment",
            "For scripts and machines without a browser.",
            "\n".join(shell),
        ),
        (
            "curl",
            "Any HTTP client does; every route answers JSON.",
            f'curl -H "{bearer}" {url}/v1/agent-runs/rsi/runs',
        ),
        (
            "OpenAI's client",
            "Reaches the deployed versions; the model is a version's name, such as sums-1/candidate-1.",
            f"export OPENAI_BASE_URL={url}/v1\nexport OPENAI_API_KEY=$ENVLOOP_API_KEY",
        ),
        (
            "From another machine",
            "A tunnel over SSH needs no further set-up here; any free local port works.",
            f"ssh -N -L {port}:127.0.0.1:{port} you@this-machine",
        ),
    ]
