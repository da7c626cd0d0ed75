"""`podium ui`: groups, divergences, preemptions and plans as pages on this machine, for the caller alone.

The pages have the content of `why`, `whatif`, `audit` and `report` for the same input, linked to each other.
Nothing is written to a cluster, and only the browser with the link gets an answer.
"""

import asyncio
import secrets
import sys
import webbrowser
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from podium.cli import inputs

if TYPE_CHECKING:
    from podium.cli.site.reading import Source
    from podium.documents.load import Scope
    from podium.kube.connection import Connection
    from podium.kube.listing import Watcher


@click.command("ui", short_help="Show groups, divergences and preemptions as pages in your browser.")
@inputs.file_options
@inputs.server_options(inputs.namespace_option("Read one namespace, not all."))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Where to listen; 0: any free one.",
)
@click.option("--open/--no-open", "opens", default=False, help="Open the browser, too.  [default: no-open]")
def command(
    *,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    port: int,
    opens: bool,
) -> None:
    """Serve pages on loopback until Ctrl-C: groups by priority and state, divergences, history, what if.

    The cluster is read from files (-f) or live as a page is asked for, by get and list only. The link that is
    printed lets one browser in; other users of this machine, and other sites, are refused.
    """
    if filenames:
        kube.refuse_with_files()
        from podium.cli.site.reading import Files  # noqa: PLC0415 - `--help` does not need numpy

        asyncio.run(_serve(Files(filenames, strict=strict), port, opens=opens))
        return

    async def ask(connection: "Connection", scope: "Scope", watcher: "Watcher") -> None:
        from podium.cli.site.reading import Cluster  # noqa: PLC0415 - as above

        await _serve(Cluster(connection, scope, watcher), port, opens=opens)

    inputs.ask_live(kube._replace(all_namespaces=kube.namespace is None), ask)


async def _serve(source: "Source", port: int, *, opens: bool) -> None:
    from podium.cli.site.shell import Secrets, Site  # noqa: PLC0415 - as above
    from podium.service import logs  # noqa: PLC0415 - as above
    from podium.service.signals import stopping  # noqa: PLC0415 - as above

    site = Site(source, lambda: datetime.now(UTC), version("podium-k8s"))
    await site.begin()
    logs.configure("text", "warning", sys.stderr)
    with stopping() as stop:
        server, guard = await site.serve(port, Secrets(*(secrets.token_urlsafe(32) for _ in Secrets._fields)))
        try:
            click.echo(guard.link)
            click.echo("podium: open this link in your browser; Ctrl-C ends", err=True)
            if opens and not await asyncio.to_thread(webbrowser.open, guard.passing_link):
                click.echo("podium: no browser could be opened; open the link yourself", err=True)
            await stop.asked.wait()
        finally:
            await server.close()
