"""One component of a cluster beside a server without controllers: a kubelet, or some of the controllers."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from tests.support.servers import Server
from tools.devcluster.controlplane.components import STAGES, commands, log

Arguments = tuple[str, ...]


@contextlib.contextmanager
def component(
    server: Server,
    name: str,
    change: Callable[[Arguments], Arguments],
    stages: Path = STAGES,
    port: int = 0,
) -> Iterator[int]:
    """Run a component while the block runs, with its arguments changed; yield its process id.

    `stages` are those of kwok. It serves on `port`; 0 is for any.
    """
    ports = {**server.settings.ports, name: port}
    settings = msgspec.structs.replace(server.settings, controllers=True, ports=ports)
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
        yield running.pid
    finally:
        running.kill()
        running.wait()
