"""Take the dumps of examples/: real control planes, real controllers, `kubectl get` and nothing edited.

    python -m tools.examples.take            # all of them, about five minutes

Each cluster is started by `python -m tools.devcluster up` (200 nodes played by kwok, the real scheduler and
controllers). The stages of `scenario.py` are applied one after another, and kubectl's output for the settled
cluster is compressed as it is.
"""

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.examples.scenario import SHAPES, Manifest, Recreate, clean, drifted, priority_class

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
KINDS = (
    "nodes,pods,priorityclasses,podgroups.scheduling.k8s.io,workloads.scheduling.k8s.io,poddisruptionbudgets,"
    "deployments.apps,statefulsets.apps,daemonsets.apps,replicasets.apps,jobs.batch,cronjobs.batch"
)
SETTLED_SECONDS = 10
DEADLINE_SECONDS = 300


class Cluster:
    """A running local cluster, used like a user does: with kubectl."""

    def __init__(self, minor: str) -> None:
        self.name = f"examples-{minor.replace('.', '')}"
        devcluster = [sys.executable, "-m", "tools.devcluster"]
        self._down = [*devcluster, "down", "--name", self.name]
        up = [*devcluster, "up", "--name", self.name, "--kubernetes", minor, "--nodes", "200"]
        kubeconfig = subprocess.run(
            up, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        self._environ = {**os.environ, "KUBECONFIG": kubeconfig.splitlines()[-1]}

    def down(self) -> None:
        """Stop and remove the cluster."""
        subprocess.run(self._down, cwd=ROOT, check=True)

    def kubectl(self, *args: str, manifests: list[Manifest] | None = None) -> bytes:
        """Run kubectl, with a List of manifests on its standard input."""
        stdin = (
            None
            if manifests is None
            else json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        )
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            ["kubectl", *args],
            check=True,
            input=stdin and stdin.encode(),
            stdout=subprocess.PIPE,
            env=self._environ,
        )
        return done.stdout

    def items(self, kinds: str) -> list[Any]:
        """List objects of all namespaces."""
        listed: list[Any] = json.loads(self.kubectl("get", kinds, "-A", "-o", "json"))["items"]
        return listed

    def settle(self) -> None:
        """Wait until every Job and Deployment has its pods and nothing has changed for a while."""
        last: Any = None
        since = time.monotonic()

        def settled() -> bool:
            nonlocal last, since
            pods = self.items("pods")
            now = sorted((p["metadata"]["uid"], p["metadata"]["resourceVersion"]) for p in pods)
            if now != last:
                last, since = now, time.monotonic()
            return self._complete(len(pods)) and time.monotonic() - since > SETTLED_SECONDS

        wait(settled, f"{self.name} to settle")

    def _complete(self, pods: int) -> bool:
        expected: int = sum(item["spec"]["parallelism"] for item in self.items("jobs.batch"))
        expected += sum(item["spec"]["replicas"] for item in self.items("deployments.apps"))
        return pods >= expected


def wait(condition: Callable[[], bool], description: str) -> None:
    """Wait until a condition holds, or exit with a line that names it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"waited {DEADLINE_SECONDS} s for {description} in vain")
        time.sleep(1)


def play(cluster: Cluster, stages: list[Any]) -> None:
    """Apply the stages one after another, each on a settled cluster."""
    for stage in stages:
        match stage:
            case list():
                cluster.kubectl("apply", "--server-side", "-f", "-", manifests=stage)
            case Recreate(name, value):
                cluster.kubectl("delete", "priorityclass", name)
                cluster.kubectl("apply", "--server-side", "-f", "-", manifests=[priority_class(name, value)])
            case name:
                cluster.kubectl("delete", "priorityclass", name)
        cluster.settle()


def take(cluster: Cluster, file: str) -> None:
    """Write what kubectl prints, compressed without a time stamp so that equal dumps are equal files."""
    printed = cluster.kubectl("get", KINDS, "-A", "-o", "json")
    (EXAMPLES / file).write_bytes(gzip.compress(printed, mtime=0))
    print(f"{file}: {len(printed):,} bytes")


def main() -> None:
    """Take every dump."""
    for minor, file, stages in (
        ("1.36", "training-1.36.json.gz", drifted),
        ("1.37", "training-1.37.json.gz", drifted),
        ("1.37", "clean-1.37.json.gz", clean),
    ):
        cluster = Cluster(minor)
        try:
            play(cluster, list(stages(SHAPES[minor])))
            take(cluster, file)
        finally:
            cluster.down()


if __name__ == "__main__":
    main()
