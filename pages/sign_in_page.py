"""The sign-in page: name and password where people have one, else the owner's key."""

from html import escape
from platform import node
from string import Template

from pages.door import door


def sign_in_html(
    *, next_path: str, error: str | None, theme: str, base: str, by_password: bool
) -> str:
    """The whole page; everything put in is escaped."""
    where = {"base": base, "next": escape(next_path, quote=True)}
    key = KEY.substitute(where)
    forms = PASSWORD.substitute(where, key=key) if by_password else key
    body = BODY.substitute(
        machine=escape(node() or "this machine"), trouble=trouble_html(error), forms=forms
    )
    return door(title="Sign in", body=body, theme=theme, base=base)


def trouble_html(error: str | None) -> str:
    """What went wrong, escaped; nothing when nothing did."""
    if not error:
        return ""
    note = '<p class="pw-note pw-bad-note" role="alert" style="margin-top: 12px">'
    return f"{note}{escape(error)}</p>"


BODY = Template("""<h1 class="pw-h1">Sign in</h1>
<p class="pw-2">to the workbench on <span class="pw-strong pw-ink">$machine</span></p>
$trouble
$forms
<hr>
<p class="pw-strong">Neither at hand?</p>
<p class="pw-2">Ask for a one-time link on the machine:</p>
<div class="pw-code" style="margin-top: 6px">python3 run.py link</div>""")

PASSWORD = Template("""<form method="post" action="$base/session">
<input type="hidden" name="next" value="$next">
<label for="name">Name</label>
<input id="name" name="name" class="pw-word-input" autofocus required autocapitalize="none"
  autocomplete="username" spellcheck="false" maxlength="64">
<label for="password">Password</label>
<input id="password" name="password" type="password" class="pw-word-input" required
  autocomplete="current-password" style="margin-bottom: 16px" maxlength="256">
<button class="pw-go" type="submit">Sign in</button>
</form>
<hr>
<details><summary>Use the owner's key instead</summary>
$key
</details>""")

KEY = Template("""<form method="post" action="$base/session">
<input type="hidden" name="next" value="$next">
<label for="key">Key</label>
<input id="key" name="key" type="password" placeholder="Paste your key" required
  autocomplete="off" spellcheck="false">
<p class="pw-3" style="margin: 6px 0 16px">It is in the file owner.key of Pawl's home folder.</p>
<button class="pw-go" type="submit">Sign in</button>
</form>""")
