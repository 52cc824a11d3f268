"""A console server of its own process for the browser tests: sample runs, the real guard."""

import argparse
from pathlib import Path

from nicegui import app as web
from nicegui import ui

from app import sign_in
from app.access import Access
from app.guard import Guard
from app.rest import cli_sign_in, late
from app.service import Service
from data.home import open_home
from data.store import Store
from pages import site
from pages.cli_sign_in_page import cli_sign_in_html
from pages.nothing import nothing_here
from pages.sign_in_page import sign_in_html
from tests import sample_run


def serve(home_path: Path, port: int, hostile: str | None) -> None:
    """Serve the console on `port` until the process is ended; the link is in `home/link`."""
    home = open_home(home_path)
    store = Store(home.database)
    access = Access(store, home)
    access.ensure_owner()
    sample_run.fill(store)
    if hostile:
        store.write(lambda session: sample_run.hostile_run(session, hostile))
    service = Service(store, "CPU, 2 cores")
    site.register(service, access)
    web.add_exception_handler(404, nothing_here(service, access))
    ways_in = sign_in.routes(access, port=port, page=sign_in_html, cli_page=cli_sign_in_html)
    for route in [*ways_in, *cli_sign_in.routes(access.grants)]:
        web.router.routes.insert(0, route)
    late.mount(web, service)

    def guard() -> None:
        assert web.middleware_stack is not None
        web.middleware_stack = Guard(web.middleware_stack, access=access, port=port)
        (home.path / "link").write_text(access.sign_in_link(f"http://127.0.0.1:{port}"))

    web.on_startup(guard)
    web.on_shutdown(store.close)
    ui.run(
        host="127.0.0.1",
        port=port,
        reload=False,
        show=False,
        show_welcome_message=False,
        **site.OPTIONS,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--hostile")
    args = parser.parse_args()
    serve(args.home, args.port, args.hostile)
