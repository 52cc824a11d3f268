"""The sign-in page: plain HTML with one field, since nobody is known yet."""

from html import escape
from importlib.metadata import version
from platform import node
from string import Template

from pages import look

THEME_CLASS = {"dark": "body--dark", "light": "body--light"}


def sign_in_html(*, next_path: str, error: str | None, theme: str) -> str:
    """The whole page; everything put in is escaped."""
    trouble = (
        f'<p class="pw-note pw-bad-note" role="alert" style="margin-top: 12px">{escape(error)}</p>'
        if error
        else ""
    )
    return PAGE.substitute(
        css=look.CSS,
        script=look.SCRIPT,
        mark=look.MARK,
        fonts=f"/_nicegui/{version('nicegui')}/static/fonts.css",
        body_class=THEME_CLASS.get(theme, "body--light"),
        next=escape(next_path, quote=True),
        machine=escape(node() or "this machine"),
        trouble=trouble,
    )


PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · Pawl</title>
<link rel="icon" href="/favicon.ico"><link rel="stylesheet" href="$fonts">
<style>$css
.pw-door { min-height: 100vh; display: grid; grid-template-rows: 1fr auto; }
.pw-door > :first-child { display: grid; place-items: center; padding: 24px 12px; }
.pw-door main { width: min(360px, 100%); }
.pw-door .pw-brand { height: auto; padding: 0; gap: 12px; margin-bottom: 24px; }
.pw-door .pw-brand svg { width: 44px; height: 44px; }
.pw-door .pw-brand .pw-word { font-size: 30px; line-height: 36px; }
.pw-door .pw-card { padding: 24px; border-radius: var(--pw-r-l); overflow: visible; }
.pw-door label { display: block; font-weight: 500; margin: 18px 0 6px; }
.pw-door * { box-sizing: border-box; } .pw-door .pw-note { padding: 8px 12px; }
.pw-door input { width: 100%; height: 40px; padding: 0 10px; border: 1px solid var(--pw-edge);
  border-radius: var(--pw-r-s); background: var(--pw-surface); color: var(--pw-ink);
  font: 12px/20px var(--pw-mono); }
.pw-door input:focus { border-color: var(--pw-accent); box-shadow: 0 0 0 1px var(--pw-accent);
  outline: none !important; }
.pw-door button { cursor: pointer; border: 0; font: 500 13px/20px var(--pw-font); }
.pw-door .pw-go { width: 100%; height: 40px; border-radius: var(--pw-r-s);
  background: var(--pw-primary); color: var(--pw-on-primary); }
.pw-door hr { border: 0; border-top: 1px solid var(--pw-line); margin: 20px 0 14px; }
.pw-door .pw-theme { background: none; color: var(--pw-ink-2); font-size: 12px; }
</style>
</head>
<body class="$body_class">
<script>$script</script>
<div class="pw-door"><div><main>
<div class="pw-brand">$mark<span class="pw-word">pawl</span></div>
<section class="pw-card">
<h1 class="pw-h1">Sign in</h1>
<p class="pw-2">to the workbench on <span class="pw-strong pw-ink">$machine</span></p>
$trouble
<form method="post" action="/session">
<input type="hidden" name="next" value="$next">
<label for="key">Key</label>
<input id="key" name="key" type="password" placeholder="Paste your key" autofocus required
  autocomplete="current-password" spellcheck="false">
<p class="pw-3" style="margin: 6px 0 16px">It is in the file owner.key of Pawl's home folder.</p>
<button class="pw-go" type="submit">Sign in</button>
</form>
<hr>
<p class="pw-strong">No key at hand?</p>
<p class="pw-2">Ask for a one-time link on the machine:</p>
<div class="pw-code" style="margin-top: 6px">python3 run.py link</div>
</section></main></div>
<div class="pw-row pw-small pw-faint" style="justify-content: center; gap: 20px; padding: 20px">
<span>Apache-2.0</span>
<button class="pw-theme" type="button" data-pawl-theme onclick="pawl.nextTheme()">Theme</button>
</div></div>
</body>
</html>
""")
