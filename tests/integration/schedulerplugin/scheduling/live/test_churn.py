"""A cluster under continuous random changes, with the invariants checked all the time.

Half a minute in `make test`, an hour in `make soak`. The seed is PODIUM_SEED. From time to time the changes
pause. Then every pod is on a node or waits with a reason, and no waiting pod would fit.
"""

import contextlib
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from bench.rig import resident
from tests.support.controllers.history import group_of
from tests.support.controllers.running import MERGE
from tests.support.proxy import Cut, Delay, Fault, Proxy, Refuse, Where
from tests.support.scheduling.ledger import OVER, deleted, over_commits, unannounced
from tests.support.scheduling.world import NAME, PRIORITIES, Sandbox, Scheduler, World, world
from tests.support.servers import FULL, TOPOLOGY
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.membership import GroupKey
from podium.api.schedulable import SCHEDULING_READS
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live
from podium.cluster.reader import Name
from podium.errors import PodiumError
from podium.groups.topology import (
    PREFERRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SPREAD_SET,
    SPREAD_TOPOLOGY,
)
from podium.planner.engine import plan
from podium.planner.preemption.outcome import Outcome
from podium.planner.settings import DivergencePolicy, Settings

pytestmark = pytest.mark.server

SECONDS = 3600 if FULL else 30
# The interval between the pauses, in which the cluster is checked.
BETWEEN_SECONDS = 60 if FULL else 15
NODES = 12
RACKS = ("a", "b", "c")
# A bind may arrive this many seconds after its decision, which a fault delayed.
LATE_SECONDS = 15.0
MOST_PODS = 70
CPUS = ("500m", 1, 2, 3)
OTHER = "default-scheduler"
FAULTS: list[Fault] = [
    Refuse(429, "TooManyRequests", retry_after=1),
    Refuse(500, "InternalError"),
    Refuse(409, "Conflict"),
    Cut(answered=False),
    Cut(answered=True),
    Delay(0.3),
]
# The maximum growth of memory from the first pause to the last, in MiB.
FLAT_MIB = 40.0
_UID = re.compile(r"\(UID ([0-9a-f-]{36})\)")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(NEWEST.minor, tmp_path_factory.mktemp("world"), TOPOLOGY) as made:
        yield made


@contextlib.contextmanager
def trouble(churn: "Churn", scheduler: Scheduler, proxy: Proxy) -> Iterator[None]:
    """Fail one in three of some requests; rarely kill the process, or cut its watches."""
    chance = churn.random
    what = chance.random()
    if what < 0.03:
        scheduler.kill()
        churn.note_kill()
        scheduler.again()
    elif what < 0.1:
        proxy.drop(Where(watch=True))
    if what > 0.3:
        yield
        return
    where = Where("/pods/", method=chance.choice(["POST", "PATCH", "DELETE"]))
    with proxy.fault(where, chance.choice(FAULTS), times=5):
        yield


class Churn:
    """Makes changes one after the other, by a seed; their effects also depend on the scheduler."""

    def __init__(self, sandbox: Sandbox, scheduler: Scheduler, seed: int) -> None:
        self.random = random.Random(seed)
        self._sandbox = sandbox
        self._scheduler = scheduler
        # Names of pods that were deleted here, perhaps during their preemption.
        self.removed: set[str] = set()
        # The racks that each node left, with the time, and the members of each gang.
        self.left: dict[str, list[tuple[float, str]]] = {}
        self.gangs: dict[str, Gang] = {}
        # The gangs of which a killed scheduler may have bound a part.
        self.interrupted: set[str] = set()
        self._racks: dict[str, str] = {}
        self._count = 0
        self._cordoned: set[str] = set()
        self._gone: set[str] = set()
        self._changes = {
            self._add_pod: 12,
            self._add_gang: 6,
            self._join: 3,
            self._remove_pod: 12,
            self._remove_gang: 4,
            self._finish: 3,
            self._reject: 1,
            self._hold: 2,
            self._release: 3,
            self._cordon: 2,
            self._uncordon: 3,
            self._remove_node: 1,
            self._return_node: 2,
            self._move_node: 1,
            self._add_budget: 1,
            self._remove_budget: 1,
        }

    def change(self) -> None:
        """Make one change."""
        changes = list(self._changes)
        (change,) = self.random.choices(changes, list(self._changes.values()))
        if change in (self._add_pod, self._add_gang, self._join) and len(self._sandbox.pods()) > MOST_PODS:
            change = self._remove_pod
        change()

    def note_kill(self) -> None:
        """Note the gangs whose members may have been about to be bound."""
        pods = self._sandbox.pods()
        for name, gang in self.gangs.items():
            there = [bool(self._sandbox.where(pods[each])) for each in gang.members if each in pods]
            if not all(there):
                self.interrupted.add(name)

    def calm(self) -> None:
        """Remove all that keeps pods from their nodes, and all finalizers of victims."""
        for node in sorted(self._cordoned):
            self._set_cordoned(node, cordoned=False)
        for node in sorted(self._gone):
            self._leave_every_rack(node)
            self.make_node(node)
        self._cordoned.clear()
        self._gone.clear()
        for name, pod in self._sandbox.pods().items():
            if "finalizers" in pod["metadata"]:
                self._sandbox.free(name)

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}-{self._count}"

    def _one(self, *, bound: bool | None = None, held: bool | None = None) -> str | None:
        """Return a pod of ours; `bound` and `held` restrict the choice, None is any."""
        there = [
            name
            for name, pod in sorted(self._sandbox.pods().items())
            if pod["spec"]["schedulerName"] == NAME
            and bound in (None, bool(pod["spec"].get("nodeName")))
            and held in (None, "finalizers" in pod["metadata"])
        ]
        return self.random.choice(there) if there else None

    def _add_pod(self) -> None:
        name, labels = self._name("pod"), {"app": self.random.choice("ab")}
        cpu, priority = self.random.choice(CPUS), self.random.choice(PRIORITIES)
        self._sandbox.pod(name, cpu, priority, metadata={"labels": labels})

    def _add_gang(self) -> None:
        name, count = self._name("gang"), self.random.randint(2, 4)
        priority, cpu = self.random.choice(PRIORITIES), self.random.choice(CPUS)
        least = self.random.choice([None, count, count - 1])
        whole = least is not None and self.random.random() < 0.5
        required = self._sandbox.in_rack if self.random.random() < 0.5 else {}
        annotations = self.random.choice(self._annotations())
        self._sandbox.group(name, priority, least, whole=whole, annotations=annotations, **required)
        self.gangs[name] = Gang(least or 0, bool(required), [], annotations)
        self.gangs[name].members.extend(self._sandbox.members(name, count, cpu, priority))

    def _annotations(self) -> list[dict[str, str]]:
        """Return the annotations of groups, of which many have none."""
        rack = self._sandbox.rack_key
        return [
            *[{}] * 3,
            {PREFERRED_TOPOLOGY: rack},
            {SLICE_SIZE: "2", SLICE_TOPOLOGY: rack},
            {SPREAD_SET: "set", SPREAD_TOPOLOGY: rack},
        ]

    def _join(self) -> None:
        groups = self._groups()
        if groups:
            group = self.random.choice(groups)
            name = group["metadata"]["name"]
            priority = self._sandbox.priorities[group["metadata"]["uid"]]
            self._sandbox.pod(self._name(f"{name}-late"), self.random.choice(CPUS), priority, group=name)

    def _remove_pod(self) -> None:
        name = self._one()
        if name is not None:
            self._delete(name)

    def _delete(self, name: str, how: str = "") -> None:
        self.removed.add(name)
        self._sandbox.server.request("DELETE", f"{self._sandbox.pods_path(name)}{how}")

    def _remove_gang(self) -> None:
        groups = self._groups()
        if groups:
            name = self.random.choice(groups)["metadata"]["name"]
            for pod in self._sandbox.pods():
                if pod.startswith(f"{name}-"):
                    self._delete(pod)
            self._sandbox.server.request("DELETE", self._sandbox.groups_path(name))
            self._patch(self._sandbox.groups_path(name), {"metadata": {"finalizers": None}})

    def _finish(self) -> None:
        name = self._one(bound=True)
        if name is not None:
            self._patch(f"{self._sandbox.pods_path(name)}/status", {"status": {"phase": "Succeeded"}})

    def _reject(self) -> None:
        name = self._one(bound=True)
        if name is not None:
            status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough cpu"}
            self._patch(f"{self._sandbox.pods_path(name)}/status", {"status": status})

    def _hold(self) -> None:
        name = self._one(bound=True, held=False)
        if name is not None:
            self._patch(self._sandbox.pods_path(name), {"metadata": {"finalizers": ["example.com/stays"]}})

    def _release(self) -> None:
        name = self._one(held=True)
        if name is not None:
            self._patch(self._sandbox.pods_path(name), {"metadata": {"finalizers": None}})

    def _cordon(self) -> None:
        if len(self._cordoned) < NODES // 3 and (node := self._random_node()):
            self._set_cordoned(node, cordoned=True)
            self._cordoned.add(node)

    def _uncordon(self) -> None:
        if self._cordoned:
            node = self.random.choice(sorted(self._cordoned))
            self._set_cordoned(node, cordoned=False)
            self._cordoned.discard(node)

    def _remove_node(self) -> None:
        """The group's pods are deleted with it, as by a controller."""
        if len(self._gone) < 2 and (node := self._random_node()):
            self._sandbox.remove_node(node)
            self._gone.add(node)
            self._leave_every_rack(node)
            self._cordoned.discard(node)
            for name, pod in self._sandbox.pods().items():
                if self._sandbox.where(pod) == node:
                    self._delete(name, "?gracePeriodSeconds=0")

    def _return_node(self) -> None:
        if self._gone:
            node = self._gone.pop()
            self._leave_every_rack(node)
            self.make_node(node)

    def make_node(self, node: str) -> None:
        """Make a node in a rack."""
        self._sandbox.node(node, labels={self._sandbox.rack_key: self._enter_rack(node)})

    def _move_node(self) -> None:
        """Move a node to another rack, but seldom: for a while the judge accepts both."""
        node = self._random_node()
        if self.random.random() < 0.1:
            labels = {self._sandbox.rack_key: self._enter_rack(node)}
            self._patch(f"/api/v1/nodes/{self._sandbox.full(node)}", {"metadata": {"labels": labels}})

    def _enter_rack(self, node: str) -> str:
        rack = self.random.choice(RACKS)
        if node in self._racks:
            self.left.setdefault(node, []).append((time.monotonic(), self._racks[node]))
        self._racks[node] = rack
        return rack

    def _leave_every_rack(self, node: str) -> None:
        """Accept every rack for a while: a bind in flight to a node that is gone pins no other member."""
        self.left.setdefault(node, []).extend((time.monotonic(), rack) for rack in RACKS)

    def racks(self, node: str) -> set[str]:
        """Return the racks of a node, now and when binds that arrive now were decided."""
        if node in self._gone:
            return set(RACKS)
        since = time.monotonic() - LATE_SECONDS
        return {self._racks[node], *(rack for at, rack in self.left.get(node, ()) if at > since)}

    def _add_budget(self) -> None:
        path = f"/apis/policy/v1/namespaces/{self._sandbox.name}/poddisruptionbudgets"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": self.random.choice("ab")}}}
        name = self._name("budget")
        self._sandbox.ask("POST", path, {"metadata": {"name": name}, "spec": spec}, code=201)
        status = {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        allowed = {"disruptionsAllowed": self.random.randint(0, 2)}
        self._patch(f"{path}/{name}/status", {"status": {**status, **allowed}})

    def _remove_budget(self) -> None:
        path = f"/apis/policy/v1/namespaces/{self._sandbox.name}/poddisruptionbudgets"
        self._sandbox.server.request("DELETE", path)

    def _random_node(self) -> str:
        there = [f"n{index}" for index in range(NODES) if f"n{index}" not in self._gone]
        return self.random.choice(there)

    def _groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._sandbox.ask("GET", self._sandbox.groups_path())["items"]
        return [group for group in found if "deletionTimestamp" not in group["metadata"]]

    def _set_cordoned(self, node: str, *, cordoned: bool) -> None:
        self._patch(
            f"/api/v1/nodes/{self._sandbox.full(node)}", {"spec": {"unschedulable": cordoned or None}}
        )

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        """Change an object that may be gone; an object being deleted accepts no new finalizer (422)."""
        code, answer = self._sandbox.server.request("PATCH", path, body, MERGE)
        assert code in (200, 404, 409) or (code == 422 and "no new finalizers" in answer["message"]), answer


class Gang(NamedTuple):
    """A gang as it was created: minCount (0: basic), whether it requires one rack, and its first members."""

    least: int
    required: bool
    members: list[str]
    annotations: dict[str, str]


class Judge:
    """Checks the changes since its last check."""

    def __init__(self, world: World, sandbox: Sandbox, churn: Churn) -> None:
        self._world = world
        self._sandbox = sandbox
        self._churn = churn
        # Evicted pods, whose answer may have been lost and whose delete was repeated.
        self.evicted: set[str] = set()
        # The members that came to their nodes before the last check: a label may have changed since.
        self._settled: set[str] = set()

    def problems(self) -> list[str]:
        """Return the violations since the last check."""
        removed = self._churn.removed
        self._world.ledger.catch_up()
        calls = [call for call in self._sandbox.calls("DELETE") if call.code == 200]
        uids = {deleted(call) for call in calls}
        found = over_commits(list(self._world.ledger.pods.seen), list(self._world.ledger.nodes.seen))
        found += unannounced(list(self._world.ledger.pods.seen), uids, removed)
        found += self._unjust(uids)
        found += self._astray()
        self.evicted |= uids
        self._world.forget()
        return found

    def _astray(self) -> list[str]:
        """Return the members that came to another rack than all others of their group that ran.

        A member that ended since the last check may have decided the rack of one that came later.
        """
        found = []
        there: dict[str, dict[str, str]] = {}
        been: dict[str, set[str]] = {}
        for each in sorted(self._world.ledger.pods.seen, key=lambda seen: seen.version):
            group, pod = group_of(each.object) or "", each.object
            if group not in self._churn.gangs or not self._churn.gangs[group].required:
                continue
            members, node = there.setdefault(group, {}), self._sandbox.where(pod)
            others = {other: at for other, at in members.items() if other != each.uid}
            ended = each.type == "DELETED" or "deletionTimestamp" in pod["metadata"]
            if not node or ended or pod["status"].get("phase") in OVER:
                members.pop(each.uid, None)
            elif each.uid not in members:
                racks, is_new = self._churn.racks(node), each.uid not in self._settled
                past = been.setdefault(group, set())
                if is_new and others and not any(racks & self._churn.racks(at) for at in past):
                    found.append(
                        f"{pod['metadata']['name']} came to {node} in {racks}, others run on {others}: "
                        f"{self._churn.gangs[group]}"
                    )
                members[each.uid] = node
                past.add(node)
        self._settled = {uid for members in there.values() for uid in members}
        return found

    def partial(self) -> list[str]:
        """Return the gangs that run in part below minCount, though all their first members exist.

        Members that joined count too. A scheduler killed between two binds leaves a part, for which there
        may be no room later.
        """
        found, pods = list[str](), self._sandbox.pods().items()
        alive = {name: pod for name, pod in pods if pod["status"].get("phase") not in OVER}
        bound = Counter(group_of(pod) for pod in alive.values() if self._sandbox.where(pod))
        for name, gang in self._churn.gangs.items():
            whole = set(gang.members) <= alive.keys() and name not in self._churn.interrupted
            if whole and 0 < bound[name] < gang.least:
                found.append(f"{bound[name]} pods of {name} run, minCount is {gang.least}")
        return found

    def _unjust(self, uids: set[str]) -> list[str]:
        """Return the victims of another scheduler, or of a priority not below their preemptor's."""
        pods = {each.uid: each.object for each in self._world.ledger.pods.seen}
        priorities = dict(self._sandbox.priorities)
        priorities |= {uid: pod["spec"]["priority"] for uid, pod in pods.items()}
        found = []
        for uid in uids & pods.keys():
            pod = pods[uid]
            texts = [
                each.get("message", "")
                for each in pod["status"].get("conditions", ())
                if each["type"] == "DisruptionTarget"
            ]
            preemptors = [priorities.get(by) for text in texts for by in _UID.findall(text)]
            if pod["spec"]["schedulerName"] != NAME:
                found.append(f"{pod['metadata']['name']} is not ours")
            if any(by is not None and by <= pod["spec"]["priority"] for by in preemptors):
                found.append(f"{pod['metadata']['name']} was as high as its preemptor: {texts}")
        return found


def resting(sandbox: Sandbox) -> list[str]:
    """Return the pods that are neither on a node nor have a message, and those that are terminating."""
    return [
        name
        for name, pod in sandbox.pods().items()
        if "deletionTimestamp" in pod["metadata"]
        or (pod["status"].get("phase") not in OVER and not (sandbox.where(pod) or sandbox.message(pod)))
    ]


def forgotten(sandbox: Sandbox) -> list[str]:
    """Return the waiting pods that would fit, by another engine with a new read of the cluster."""
    options = KubeOptions(str(sandbox.server.kubeconfig), None, all_namespaces=True)
    state = load_live(options, SCHEDULING_READS).state
    settings = Settings(divergence=DivergencePolicy.NO_PREEMPTION)
    waiting: dict[Name | GroupKey, None] = {}
    for name, pod in sandbox.pods().items():
        if not sandbox.where(pod) and pod["status"]["phase"] == "Pending":
            group = group_of(pod)
            native = sandbox.world.place.native
            waiting[GroupKey(native, sandbox.name, group) if group else (sandbox.name, name)] = None
    found = []
    for key in waiting:
        # A pod was bound or deleted meanwhile.
        with contextlib.suppress(PodiumError):
            if plan(state, key, datetime.now(UTC), settings).outcome is Outcome.FITS:
                found.append(str(key))
    return found


@pytest.mark.timeout(SECONDS + 300)
def test_no_state_is_wrong_and_no_pod_is_forgotten(ours: World) -> None:
    """The invariants hold while requests fail, watches break and the scheduler is killed."""
    seed = int(os.environ.get("PODIUM_SEED", "7"))
    sizes: list[float] = []
    with ours.scheduling() as scheduler, ours.sandbox() as sandbox:
        churn = Churn(sandbox, scheduler, seed)
        judge = Judge(ours, sandbox, churn)
        for index in range(NODES):
            churn.make_node(f"n{index}")
        for index in range(3):
            sandbox.pod(f"foreign-{index}", 1, 1, node=f"n{index}", schedulerName=OTHER)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            rest = min(end, time.monotonic() + BETWEEN_SECONDS)
            while time.monotonic() < rest:
                with trouble(churn, scheduler, ours.proxy):
                    for _ in range(20):
                        churn.change()
                assert judge.problems() == [], f"seed {seed}{ours.log}"
            churn.calm()
            sandbox.until(lambda: resting(sandbox) == [], "everything comes to rest")
            # No pod in flight is lost: a backoff may have to end first.
            sandbox.until(lambda: forgotten(sandbox) == [], f"nothing waits that would fit (seed {seed})")
            assert judge.partial() == [], f"seed {seed}{ours.log}"
            sizes.append(resident(scheduler.process.pid))
        if FULL:
            assert max(sizes) - sizes[0] < FLAT_MIB, sizes
        assert judge.problems() == []
        assert judge.evicted
