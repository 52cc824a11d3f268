"""The door: the plain HTML around the pages that are shown before anybody is known."""

from importlib.metadata import version
from string import Template

from pages import look

THEME_CLASS = {"dark": "body--dark", "light": "body--light"}


def door(*, title: str, body: str, theme: str, base: str) -> str:
    """A whole page with one card; `body` is HTML whose every value was escaped."""
    return PAGE.substitute(
        title=title,
        body=body,
        base=base,
        css=look.CSS,
        script=look.SCRIPT,
        mark=look.MARK,
        fonts=f"{base}/_nicegui/{version('nicegui')}/static/fonts.css",
        body_class=THEME_CLASS.get(theme, "body--light"),
    )


PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title · Pawl</title>
<link rel="icon" href="$base/favicon.ico"><link rel="stylesheet" href="$fonts">
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
.pw-door input, .pw-door select { width: 100%; height: 40px; padding: 0 10px; border: 1px solid var(--pw-edge);
  border-radius: var(--pw-r-s); background: var(--pw-surface); color: var(--pw-ink);
  font: 12px/20px var(--pw-mono); }
.pw-door input:focus, .pw-door select:focus { border-color: var(--pw-accent); box-shadow: 0 0 0 1px var(--pw-accent);
  outline: none !important; }
.pw-door button { cursor: pointer; border: 0; font: 500 13px/20px var(--pw-font); }
.pw-door .pw-go { width: 100%; height: 40px; border-radius: var(--pw-r-s);
  background: var(--pw-primary); color: var(--pw-on-primary); }
.pw-door hr { border: 0; border-top: 1px solid var(--pw-line); margin: 20px 0 14px; }
.pw-door .pw-theme { background: none; color: var(--pw-ink-2); font-size: 12px; }
.pw-door select { font: 400 13px/20px var(--pw-font); }
.pw-door input.pw-word-input { font: 400 13px/20px var(--pw-font); }
.pw-door input.pw-code-input { font: 500 20px/28px var(--pw-mono); letter-spacing: 4px;
  text-transform: uppercase; }
.pw-door .pw-stay { width: 100%; height: 40px; margin-top: 8px; border-radius: var(--pw-r-s);
  background: var(--pw-surface); color: var(--pw-ink); border: 1px solid var(--pw-edge); }
.pw-door summary { cursor: pointer; font-weight: 500; margin-bottom: 8px; }
</style>
</head>
<body class="$body_class">
<script>window.path_prefix = "$base";$script</script>
<div class="pw-door"><div><main>
<div class="pw-brand">$mark<span class="pw-word">pawl</span></div>
<section class="pw-card">
$body
</section></main></div>
<div class="pw-row pw-small pw-faint" style="justify-content: center; gap: 20px; padding: 20px">
<span>Apache-2.0</span>
<button class="pw-theme" type="button" data-pawl-theme onclick="pawl.nextTheme()">Theme</button>
</div></div>
</body>
</html>
""")
