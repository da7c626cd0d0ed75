"""kwok as the kubelets of a server without controllers: it starts bound pods and ends deleted ones.

No other client writes there, so only the scheduler evicts pods.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.support.servers import Server

from podium.controlplane.components import commands, log
from podium.documents import packagedata

_NAME = "kwok"
_ALL_NODES = "--manage-all-nodes=true"


@contextlib.contextmanager
def kubelet(server: Server, stages: Path | None = None, label: str = "") -> Iterator[None]:
    """Let kwok manage the server's nodes while the block runs, or those with a label.

    `stages` is a file of other stages.
    """
    settings = msgspec.structs.replace(
        server.settings, controllers=True, ports={**server.settings.ports, _NAME: 0}
    )
    stages = stages or packagedata.folder("controlplane") / "kwok" / "stages.yaml"
    arguments = commands(settings, stages)[_NAME]
    if label:
        arguments = (
            *(each for each in arguments if each != _ALL_NODES),
            f"--manage-nodes-with-label-selector={label}",
        )
    with (server.folder / log(_NAME)).open("ab") as output:
        running = subprocess.Popen(
            [str(server.program(_NAME)), *arguments],
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
