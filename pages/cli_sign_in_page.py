"""The page that asks a signed-in person whether a command line gets a key."""

from html import escape
from string import Template

from app.caller import Caller
from app.cli_grants import Asked
from pages.door import door
from pages.sign_in_page import trouble_html

ENDS = {
    "approved": "Approved. Go back to the terminal: it is signed in now. You can close this page.",
    "denied": "Denied. The command line gets no key. You can close this page.",
    "cancelled": "The command line has given up meanwhile. Start it anew in the terminal.",
    "expired": "This request is older than ten minutes. Start it anew in the terminal.",
}


def cli_sign_in_html(
    *,
    asked: Asked | None,
    caller: Caller,
    projects: dict[str, str],
    error: str | None,
    theme: str,
    base: str,
) -> str:
    """The whole page; everything put in is escaped."""
    if asked is None:
        body = f'<h1 class="pw-h1">Sign in a command line</h1>{trouble_html(error)}'
    elif asked.status in ENDS:
        body = END.substitute(trouble=trouble_html(error), text=ENDS[asked.status])
    else:
        body = FORM.substitute(
            base=base,
            trouble=trouble_html(error),
            person=escape(caller.actor),
            rights="read, start, steer and stop runs, and use and deploy versions"
            if "training.run" in caller.capabilities
            else "read",
            address=escape(asked.address),
            grant=escape(asked.id, quote=True),
            options="".join(
                f'<option value="{escape(one, quote=True)}"'
                f"{' selected' if one == caller.project_id else ''}>{escape(name)}</option>"
                for one, name in projects.items()
            ),
        )
    return door(title="Sign in a command line", body=body, theme=theme, base=base)


END = Template("""<h1 class="pw-h1">Sign in a command line</h1>
$trouble
<p role="status" style="margin-top: 12px">$text</p>""")

FORM = Template("""<h1 class="pw-h1">Sign in a command line</h1>
<p class="pw-2">as <span class="pw-strong pw-ink">$person</span>, asked for from $address</p>
$trouble
<form method="post" action="$base/session/cli" autocomplete="off">
<input type="hidden" name="cli_login" value="$grant">
<label for="code">Confirmation code shown in the terminal</label>
<input id="code" name="code" class="pw-code-input" autofocus maxlength="16" spellcheck="false"
  autocapitalize="characters">
<label for="project">Project</label>
<select id="project" name="project">$options</select>
<p class="pw-2" style="margin: 14px 0 16px">For 30 days the command line may do in this project what
you may: $rights. Approve only what you started yourself: whoever sent you a link and a code would
get these rights.</p>
<button class="pw-go" type="submit" name="answer" value="approve">Approve</button>
<button class="pw-stay" type="submit" name="answer" value="deny">Deny</button>
</form>""")
