"""One component of a cluster beside a server without controllers: a kubelet, or some of the controllers."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from tests.support.servers import Server

from podium.controlplane.components import commands, log
from podium.documents import packagedata

Arguments = tuple[str, ...]


@contextlib.contextmanager
def component(
    server: Server, name: str, change: Callable[[Arguments], Arguments], stages: Path | None = None
) -> Iterator[None]:
    """Run a component while the block runs, with its arguments changed; `stages` are those of kwok."""
    ports = {**server.settings.ports, name: 0}
    settings = msgspec.structs.replace(server.settings, controllers=True, ports=ports)
    stages = stages or packagedata.folder("controlplane") / "kwok" / "stages.yaml"
    with (server.folder / log(name)).open("ab") as output:
        running = subprocess.Popen(
            [str(server.program(name)), *change(commands(settings, stages)[name])],
            cwd=server.folder,
            env={"PATH": os.defpath, "HOME": str(server.folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield
    finally:
        running.kill()
        running.wait()
