"""kwok as the kubelets of a server without controllers: it starts bound pods and ends deleted ones.

No other client writes there, so only the scheduler evicts pods.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.support.component import Arguments, component
from tests.support.servers import Server
from tools.devcluster.controlplane.components import STAGES

_ALL_NODES = "--manage-all-nodes=true"


def kubelet(server: Server, stages: Path = STAGES, label: str = "") -> AbstractContextManager[int]:
    """Let kwok manage the server's nodes while the block runs, or those with a label.

    `stages` is the file of kwok's stages.
    """

    def only(arguments: Arguments) -> Arguments:
        if not label:
            return arguments
        kept = (each for each in arguments if each != _ALL_NODES)
        return (*kept, f"--manage-nodes-with-label-selector={label}")

    return component(server, "kwok", only, stages)
