"""Kubelets that let a pod use all of its grace period, as if its process ignored SIGTERM.

They write no status of some pods, as if these were full from the start.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.support.scheduling.kubelet import kubelet
from tests.support.servers import Server
from tools.devcluster.controlplane.components import STAGES

# A pod with this label stays until a client deletes it with a grace period of 0.
STAYS = "hostile.example/stays"
# A pod with this label gets no status.
SILENT = "hostile.example/silent"
_KEPT_LABELS = {"pod-deleted": STAYS, "pod-running": SILENT}


@contextlib.contextmanager
def kubelets(server: Server, folder: Path) -> Iterator[None]:
    """Let kwok manage the server's nodes, and leave pods with the labels alone."""
    stages: list[dict[str, Any]] = list(yaml.safe_load_all(STAGES.read_text("utf-8")))
    for each in stages:
        if each["metadata"]["name"] in _KEPT_LABELS:
            label = f'.metadata.labels["{_KEPT_LABELS[each["metadata"]["name"]]}"]'
            each["spec"]["selector"]["matchExpressions"].append({"key": label, "operator": "DoesNotExist"})
    changed = folder / "stages.yaml"
    changed.write_text(yaml.safe_dump_all(stages), "utf-8")
    with kubelet(server, changed):
        yield
