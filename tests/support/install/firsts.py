"""Time `podium install` on a bare cluster up to the first enforced rule and the first running gang."""

import contextlib
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import PODIUM_API, Place, Space, spawn
from tests.support.install.scene import GROUPS, NAMESPACE, podium, route, webhook
from tests.support.rights import Account
from tests.support.servers import Server
from tests.support.waiting import until
from tests.support.webhooks.running import ending
from tests.unit.manifests.test_modes import configured

from podium.api.groups import NATIVE_GROUP

_RESERVED = "scheduling.podium.dev/reserved"
_MISSING = "there-is-no-such-class"


class Moments(NamedTuple):
    """The time of each step, in seconds since the command began; `refusal` is the first refusal's message."""

    installed: float
    enforced: float
    running: float
    refusal: str


def first_steps(server: Server, folder: Path, command: str) -> Moments:
    """Install with the scheduler, have a group refused and run a gang of two; `command` is podium's path.

    Services do not route here, so the registrations point to local processes, which have the accounts, the
    arguments and the configuration of the installed ones.
    """
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        webhooks = stack.enter_context(webhook(server, folder / "webhook"))
        podium(server, "install", "--mode=scheduler")
        installed = time.monotonic() - began
        route(server, webhooks[0].url)
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
        return Moments(installed, enforced, time.monotonic() - began, refused[-1])


def _group_of_no_class() -> dict[str, Any]:
    spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": _MISSING}
    return {"apiVersion": PODIUM_API, "kind": "PodGroup", "metadata": {"name": "none"}, "spec": spec}


def _node(gang: Space, pod: str) -> str:
    return str(gang.ask("GET", gang.pods_path(pod))["spec"].get("nodeName", ""))
