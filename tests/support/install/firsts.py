"""Time an installation on a bare cluster up to the first enforced rule and the first running gang."""

import contextlib
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import PODIUM_API, Place, Space, spawn
from tests.support.install.scene import GROUPS, NAMESPACE, apply
from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.waiting import until
from tests.support.webhooks.deployed import installed
from tests.support.webhooks.running import ending
from tests.unit.manifests.test_modes import configured, rendered

from podium.api.groups import NATIVE_GROUP

_RESERVED = "scheduling.podium.dev/reserved"
_MISSING = "there-is-no-such-class"


class Moments(NamedTuple):
    """The time of each step, in seconds since the apply began; `refusal` is the first refusal's message."""

    enforced: float
    running: float
    refusal: str


def first_steps(server: Server, folder: Path, command: str) -> Moments:
    """Apply the manifests, have a group refused and run a gang of two; `command` is podium's path.

    The processes run on this machine, with the accounts, the arguments and the files of their pods.
    """
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        apply(server, rendered("scheduler"))
        stack.enter_context(installed(server, folder / "webhook"))
        refused: list[str] = []

        def refuses() -> bool:
            code, answer = server.request("POST", GROUPS, _group_of_no_class())
            refused.append(str(answer.get("message", "")))
            return code != 201 and _MISSING in refused[-1]

        until(refuses, "a group of no class is refused")
        enforced = time.monotonic() - began
        configuration = folder / "scheduler.yaml"
        configuration.write_text(configured("scheduler", "podium-scheduler")[configuration.name], "utf-8")
        kubeconfig = Account(server, NAMESPACE, "podium-scheduler").kubeconfig(folder)
        line = [command, "scheduler", f"--kubeconfig={kubeconfig}", f"--lease={NAMESPACE}/podium-scheduler"]
        line += [f"--config={configuration}", "--metrics-port=0", "--log-format=json"]
        stack.enter_context(ending(spawn(line, folder / "scheduler")))
        native = f"{NATIVE_GROUP}/{NATIVE[server.release.minor][0]}"
        # Only now, because the installed pods run on any other nodes.
        server.kubectl("label", "nodes", "--all", f"{_RESERVED}=yes")
        server.kubectl("taint", "nodes", "--all", f"{_RESERVED}=yes:NoSchedule")
        gang = Space(Place(server, native if server.settings.workload_api else PODIUM_API), "default")
        gang.group("first", resolve=False)
        for name in ("first-0", "first-1"):
            gang.pod(name, "first", schedulerName="podium-scheduler")
        until(lambda: all(_node(gang, name) for name in ("first-0", "first-1")), "the gang has its nodes")
        return Moments(enforced, time.monotonic() - began, refused[-1])


def _group_of_no_class() -> dict[str, Any]:
    spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": _MISSING}
    return {"apiVersion": PODIUM_API, "kind": "PodGroup", "metadata": {"name": "none"}, "spec": spec}


def _node(gang: Space, pod: str) -> str:
    return str(gang.ask("GET", gang.pods_path(pod))["spec"].get("nodeName", ""))
