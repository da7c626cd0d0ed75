"""`podium ui`: groups, divergences, preemptions and plans as pages on this machine, for the caller alone.

The pages have the content of `why`, `whatif`, `audit` and `report` for the same input, linked to each other.
Nothing is written to a cluster, and only browsers with the link get an answer.
"""

import asyncio
import secrets
import sys
import webbrowser
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from podium.cli import inputs, kubeoptions
from podium.cli.live import ask_live
from podium.cli.main import examples
from podium.cli.progress import TerminalProgress
from podium.stderr import say
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.cli.ui.reading import ClusterSource
    from podium.documents.scope import Scope
    from podium.kube.connection import Connection


@click.command(
    epilog=examples(
        ("Serve the pages of a dump", "podium ui -f cluster.json.gz"),
        ("Serve one namespace of the live cluster on port 8080", "podium ui -n team-a --port 8080"),
    )
)
@inputs.file_options
@kubeoptions.scope_options("Namespace to read. By default all.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of 127.0.0.1 to listen on; 0 for any free port of a random loopback address.",
)
@click.option("--open/--no-open", "opens", default=False, help="Open the browser.  [default: no-open]")
def command(*, files: inputs.InputFiles, kube: kubeoptions.KubeOptions, port: int, opens: bool) -> None:
    """Serve pages on loopback until Ctrl-C: groups, divergences, preemption history, what-if plans.

    Reads files (-f) or, at each page request, the live cluster, with get and list requests only. The printed
    link works for ten minutes. Other users of this machine and other web sites are refused.
    """
    if files.names:
        scope_of_files = kube.scope_of_files()
        from podium.cli.ui.reading import Files  # noqa: PLC0415 - `--help` does not need numpy

        asyncio.run(_serve(Files(files, scope_of_files), port, opens=opens))
        return

    async def ask(connection: "Connection", scope: "Scope", watcher: TerminalProgress) -> None:
        from podium.cli.ui.reading import LiveSource  # noqa: PLC0415 - as above

        await _serve(LiveSource(connection, scope, watcher), port, opens=opens)

    ask_live(kube.everything, ask)


async def _serve(source: "ClusterSource", port: int, *, opens: bool) -> None:
    from podium.cli.ui.access import HOST, own_host  # noqa: PLC0415 - as above
    from podium.cli.ui.shell import Secrets, Site  # noqa: PLC0415 - as above
    from podium.runtime import logs  # noqa: PLC0415 - as above
    from podium.runtime.signals import stopping  # noqa: PLC0415 - as above

    site = Site(source, lambda: datetime.now(UTC), VERSION)
    await site.check_source()
    logs.configure("text", "warning", sys.stderr)
    with stopping() as stop:
        # Tunnels, which need a fixed port, need a fixed address too.
        host = HOST if port else own_host(secrets.token_bytes(3))
        values = Secrets(*(secrets.token_urlsafe(32) for _ in Secrets._fields))
        server, guard = await site.serve(host, port, values)
        try:
            click.echo(guard.link)
            say("podium: open this link in your browser; stop with Ctrl-C")
            if opens and not await asyncio.to_thread(webbrowser.open, guard.passing_link):
                say("podium: no browser found; open the link yourself")
            await stop.asked.wait()
        finally:
            await server.close()
