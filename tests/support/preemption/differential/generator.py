"""Generates clusters in which a scheduler has to preempt, from a seed, in the API of each release.

Random choices of kube-scheduler are avoided. No two pods start in the same second. Where a release stops at
the first budget, no pod is in two budgets. The pending members of a group are alike, because 1.36 takes them
in any order. Nodes may still tie; `compare` handles that.

Every case has labels, a namespace and a node selector of its own, so one server holds many cases at a time. A
group preempts in the whole cluster, but it reprieves the pods that it does not need. Members that are alike
fit on any of equal nodes, or on none. So the pods of other cases change nothing.
"""

import itertools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from podium.api.minors import group_minor

Object = dict[str, Any]

CASE_LABEL = "tests.podium.dev/case"
ROLE_LABEL = "tests.podium.dev/role"
PREEMPTOR = "preemptor"
HOST = "kubernetes.io/hostname"
GPU = "example.com/gpu"
# name: (value, preemptionPolicy)
CLASSES = {
    **{f"value-{value}": (value, "PreemptLowerPriority") for value in (0, 10, 20, 50, 100, 500, 1000)},
    "below-zero": (-10, "PreemptLowerPriority"),
    "never-1000": (1000, "Never"),
}
# Seconds since 1970: 2026-01-01, when the first pod started.
EPOCH = 1_767_225_600
_LOW = ("below-zero", "value-0", "value-10", "value-20", "value-50", "value-100", "value-500")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_APPS = ("a", "b", "c", "d")


class Case(NamedTuple):
    """The objects for a server in the order of creation; the preemptor is the last.

    `terminating` are pods that are deleted before the scheduler sees them.
    """

    namespace: str
    objects: tuple[Object, ...]
    terminating: tuple[str, ...]
    preemptor: tuple[str, str]  # kind and name


def case(seed: int, index: int, minor: str) -> Case:
    """Make case number `index` of a seed, in the words of a minor ("1.36")."""
    return CaseMaker(random.Random(f"{seed}/{index}"), f"case-{index}", minor).make()


def small_pod_spec(class_name: str, cpu: int, **more: Any) -> Object:
    """Return the spec of a pod that asks for so many millicores and little memory."""
    resources = {"requests": {"cpu": f"{cpu}m", "memory": "16Mi"}}
    containers = [{"name": "main", "image": "none", "resources": resources}]
    return {"containers": containers, "priorityClassName": class_name, **more}


class CaseMaker:
    """Builds one case; the order of random choices is the same for each minor."""

    def __init__(self, dice: random.Random, name: str, minor: str) -> None:
        self.dice, self.name, self.minor = dice, name, minor
        self.api = group_minor(int(minor[2:]))
        self.objects: list[Object] = []
        self.started = dice.sample(range(100_000), 1000)
        self.has_gpus = dice.random() < 0.3
        self.alike = dice.random() < 0.25
        self.crowded = 0.5 if dice.random() < 0.25 else 1.0
        self.terminating: list[str] = []

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def make(self) -> Case:
        preemptor_is_group = self.chance(0.5)
        groups = self.groups()
        nodes = self.nodes()
        for node in nodes:
            self.fill(node, groups)
        self.budgets(overlapping=self.minor == "1.36" and not preemptor_is_group)
        kind = "PodGroup" if preemptor_is_group else "Pod"
        if preemptor_is_group:
            self.preempting_group(nodes)
        else:
            self.preempting_pod(nodes)
        self.empty_selectors()
        return Case(self.name, tuple(self.objects), tuple(self.terminating), (kind, PREEMPTOR))

    def nodes(self) -> list[Object]:
        """Make three to fifty nodes; alike in some cases, of odd sizes in most."""
        low, high = self.dice.choices(((3, 6), (7, 12), (13, 25), (26, 50)), (60, 25, 11, 4))[0]
        size = self.dice.choice((2000, 4000, 8000))
        pods = self.dice.choice((4, 5, 6)) if self.chance(0.12) else 110
        made = []
        for number in range(self.dice.randint(low, high)):
            odd = 0 if self.alike else self.dice.randrange(0, size // 2, 10)
            room = {
                "cpu": f"{size + odd}m",
                "memory": f"{(size + odd) * 2 // 1000 * 1024 + odd}Mi",
                "pods": str(pods),
                **({GPU: str(self.dice.choice((2, 4)))} if self.has_gpus else {}),
            }
            labels = self.labels(f"{self.name}-{number:02}", f"zone-{number % 3}")
            taints = []
            if self.chance(0.12):
                taints.append({"key": "dedicated", "value": "yes", "effect": "NoSchedule"})
            if self.chance(0.08):
                taints.append({"key": "old", "effect": "PreferNoSchedule"})
            spec: Object = {"taints": taints} if taints else {}
            if self.chance(0.03):
                spec["unschedulable"] = True
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": labels[HOST], "labels": labels},
                "spec": spec,
                "status": {"allocatable": room, "capacity": room},
            }
            made.append(node)
        self.objects += made
        return made

    def labels(self, node: str, zone: str) -> dict[str, str]:
        return {CASE_LABEL: self.name, "zone": zone, HOST: node}

    def groups(self) -> list[tuple[str, str]]:
        """Make the groups of running pods; return the name of each and the class of its members."""
        made = []
        for number in range(self.dice.choice((0, 1, 2, 2, 3))):
            name, its = f"running-{number}", self.dice.choice(_LOW)
            theirs = self.dice.choice(_LOW) if self.chance(0.15) else its
            mode = self.dice.choice((None, "Pod", "PodGroup", "PodGroup"))
            gang = None if self.chance(0.2) else self.dice.randint(1, 4)
            self.group(name, its, gang, mode)
            made.append((name, theirs))
        return made

    def group(self, name: str, class_name: str, min_count: int | None, mode: str | None) -> None:
        newer = self.minor != "1.36"
        spec: Object = {
            "schedulingPolicy": {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}},
            "priorityClassName": class_name,
        }
        if self.api.strict_modes and min_count is None:
            mode = mode and "Pod"
        if mode is not None:
            spec["disruptionMode"] = {"all" if mode == "PodGroup" else "single": {}} if newer else mode
        self.objects.append(
            {
                "apiVersion": f"scheduling.k8s.io/{'v1beta1' if newer else 'v1alpha2'}",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": self.name},
                "spec": spec,
            }
        )

    def fill(self, node: Object, groups: list[tuple[str, str]]) -> None:
        """Add running pods to a node until little room is free, or slightly more."""
        room = node["status"]["allocatable"]
        cpu, memory = _milli(room["cpu"]), _mebi(room["memory"])
        left = {"cpu": cpu, "memory": memory, "pods": int(room["pods"]), GPU: int(room.get(GPU, 0))}
        wanted = self.dice.uniform(0.7, 1.0) * self.crowded
        while left["cpu"] > cpu * (1 - wanted) and left["memory"] > 0 and left["pods"] > 0:
            requests = {
                "cpu": min(left["cpu"], self.dice.randrange(cpu // 10, cpu // 2, 10)),
                "memory": min(left["memory"], self.dice.randrange(memory // 20, memory // 3)),
                GPU: min(left[GPU], self.dice.choice((0, 0, 1))),
            }
            left = {name: amount - requests.get(name, 1) for name, amount in left.items()}
            self.running(node["metadata"]["name"], requests, groups)

    def running(self, node: str, requests: dict[str, int], groups: list[tuple[str, str]]) -> None:
        """Make a pod that runs on a node, alone or in one of the groups."""
        number = sum(each["kind"] == "Pod" for each in self.objects)
        name, group, class_name = f"pod-{number:03}", "", self.dice.choice(_LOW[: 5 + self.chance(0.3) * 2])
        if groups and self.chance(0.5):
            group, class_name = self.dice.choice(groups)
        labels = {"app": self.dice.choice(_APPS), "tier": self.dice.choice(("x", "y"))}
        pod = self.pod(name, requests, class_name, group=group, labels=labels if self.chance(0.85) else {})
        pod["spec"]["nodeName"] = node
        if self.chance(0.06) and not any(_has_port(each, node) for each in self.objects):
            # kube-scheduler takes the port as free once one of two such pods is removed (HostPortInfo).
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        if self.chance(0.04):
            # Running pods may keep the preemptor off their node, or off their zone.
            apart = _apart({ROLE_LABEL: PREEMPTOR}, self.dice.choice((HOST, HOST, "zone")))
            pod["spec"]["affinity"] = {"podAntiAffinity": {_REQUIRED: apart}}
        pod["status"] = {"phase": "Running", "startTime": written_time(EPOCH + self.started[number])}
        self.objects.append(pod)
        if self.chance(0.02):
            self.terminating.append(name)

    def pod(
        self,
        name: str,
        amounts: dict[str, int],
        class_name: str,
        *,
        group: str,
        labels: dict[str, str],
    ) -> Object:
        units = {"cpu": "m", "memory": "Mi"}
        requests = {what: f"{amount}{units.get(what, '')}" for what, amount in amounts.items() if amount}
        resources = {"requests": requests, "limits": {GPU: requests[GPU]} if GPU in requests else {}}
        spec: Object = {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "priorityClassName": class_name,
        }
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        metadata = {"name": name, "namespace": self.name, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def budgets(self, *, overlapping: bool) -> None:
        """Make up to three budgets over the running pods."""
        labels = [("app", app) for app in self.dice.sample(_APPS, 3)]
        if overlapping and self.chance(0.3):
            labels.append(("tier", "x"))
        for key, value in labels[self.dice.choice((0, 1, 2, 3)) :]:
            allowed = self.dice.choice((0, 0, 1, 2))
            status: Object = {
                "disruptionsAllowed": allowed,
                "currentHealthy": allowed,
                "desiredHealthy": 0,
                "expectedPods": allowed,
            }
            if self.chance(0.1):
                # Evicted just before, and not counted twice.
                status["disruptedPods"] = {"pod-000": written_time(EPOCH)}
            metadata = {"name": f"{key}-{value}", "namespace": self.name}
            spec = {"maxUnavailable": allowed, "selector": {"matchLabels": {key: value}}}
            self.objects.append(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": metadata,
                    "spec": spec,
                    "status": status,
                }
            )

    def empty_selectors(self) -> None:
        """Let few budgets and spread constraints select all pods; this is drawn last, apart from the rest.

        Such a budget is the only one, because a pod must not be in two. A constraint does so only where
        kube-scheduler then counts all pods (docs/differences.md, counts-below-zero).
        """
        budgets = [each for each in self.objects if each["kind"] == "PodDisruptionBudget"]
        if budgets and self.chance(0.15):
            budgets[0]["spec"]["selector"] = {}
            self.objects = [each for each in self.objects if each not in budgets[1:]]
        spreads = [each["spec"].get("topologySpreadConstraints", ()) for each in self.objects]
        for spread in itertools.chain.from_iterable(spreads):
            if self.chance(0.25) and self.api.empty_selectors:
                spread["labelSelector"] = {}

    def preempting_pod(self, nodes: list[Object]) -> None:
        pending = self.pending(PREEMPTOR, self.wish(nodes), self.preempting_class(), "")
        if self.chance(0.05):
            self.ongoing([pending])
        self.objects.append(pending)

    def preempting_group(self, nodes: list[Object]) -> None:
        """Make a group of one to eight equal pending pods; some groups have members that run already."""
        class_name, size = self.preempting_class(), self.dice.choice((1, 2, 2, 3, 3, 4, 5, 6, 8))
        running = self.dice.choice((1, 2)) if self.chance(0.12) else 0
        gang = None
        if not self.chance(0.25):
            gang = running + (size if self.chance(0.6) else self.dice.randint(1, size))
        self.group(PREEMPTOR, class_name, gang, self.dice.choice((None, "Pod", "PodGroup")))
        if self.chance(0.04):
            class_name = self.preempting_class()
        requests = self.wish(nodes)
        for number in range(running):
            member = self.pod(
                f"member-{number}", {"cpu": 10, "memory": 1}, class_name, group=PREEMPTOR, labels={}
            )
            member["spec"]["nodeName"] = self.dice.choice(nodes)["metadata"]["name"]
            member["status"] = {
                "phase": "Running",
                "startTime": written_time(EPOCH + self.started[-1 - number]),
            }
            self.objects.append(member)
        one = self.pending("", requests, class_name, PREEMPTOR)
        other = self.wish(nodes)
        names = [f"{PREEMPTOR}-{number}" for number in range(size)]
        pending: list[Object] = [one | {"metadata": {**one["metadata"], "name": name}} for name in names]
        if self.chance(0.12) and self.minor != "1.36":
            changed = self.pod("", other, class_name, group=PREEMPTOR, labels={})["spec"]
            pending[-1]["spec"] = {**pending[-1]["spec"], "containers": changed["containers"]}
        if self.chance(0.05):
            self.ongoing(pending)
        self.objects += pending

    def preempting_class(self) -> str:
        return self.dice.choices(("value-50", "value-100", "value-1000", "never-1000"), (20, 30, 47, 3))[0]

    def wish(self, nodes: list[Object]) -> dict[str, int]:
        """Return the request of a pending pod: a large part of a node, sometimes more than all of it."""
        room = self.dice.choice(nodes)["status"]["allocatable"]
        cpu, memory = _milli(room["cpu"]), _mebi(room["memory"])
        return {
            "cpu": self.dice.randrange(cpu // 5, cpu * 21 // 20, 10),
            "memory": self.dice.randrange(memory // 20, memory * 3 // 4),
            GPU: self.dice.choice((0, 1, 2)) if self.has_gpus else 0,
        }

    def pending(self, name: str, requests: dict[str, int], class_name: str, group: str) -> Object:
        labels = {ROLE_LABEL: PREEMPTOR}
        made = self.pod(name, requests, class_name, group=group, labels=labels)
        spec = made["spec"]
        spec["nodeSelector"] = {CASE_LABEL: self.name}
        if self.chance(0.15):
            spec["nodeSelector"]["zone"] = "zone-0"
        if self.chance(0.3):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.chance(0.08):
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        affinity: Object = {}
        if self.chance(0.1):
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["zone-1"]}]}
            wished = [{"weight": self.dice.choice((1, 50)), "preference": term}]
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": wished}
        if self.chance(0.08):
            affinity["podAntiAffinity"] = {_REQUIRED: _apart({"app": self.dice.choice(_APPS)}, HOST)}
        if self.chance(0.05):
            affinity["podAffinity"] = {_REQUIRED: _apart({"app": self.dice.choice(_APPS)}, "zone")}
        if affinity:
            spec["affinity"] = affinity
        # If 1.36 places a group several times, chance decides which pods fit and which are victims.
        label = {ROLE_LABEL: PREEMPTOR} if group else {"app": self.dice.choice(_APPS)}
        spread = {
            "maxSkew": self.dice.choice((1, 2)),
            "topologyKey": self.dice.choice(("zone", HOST)),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": label},
        }
        if self.chance(0.1) and not (group and self.minor == "1.36"):
            spec["topologySpreadConstraints"] = [spread]
        return made

    def ongoing(self, pending: Sequence[Object]) -> None:
        """Add a preemption in progress: leaving victims, and pending pods nominated to their nodes."""
        running = [each for each in self.objects if "nodeName" in each.get("spec", {})]
        lower = [each for each in running if each["spec"]["priorityClassName"] in _LOW[:3]]
        if not lower:
            return
        for each in pending:
            victim = self.dice.choice(lower)
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            victim["status"]["conditions"] = [condition | {"lastTransitionTime": written_time(EPOCH)}]
            each["status"] = {"nominatedNodeName": victim["spec"]["nodeName"]}
            self.terminating.append(victim["metadata"]["name"])


def _has_port(stored: Object, node: str) -> bool:
    """Return whether an object is a pod with a host port on a node."""
    spec = stored["spec"]
    return spec.get("nodeName") == node and "ports" in spec["containers"][0]


def _apart(labels: Object, topology_key: str) -> list[Object]:
    """Return the terms of affinity or anti-affinity to the pods of this namespace with these labels."""
    return [{"labelSelector": {"matchLabels": labels}, "topologyKey": topology_key}]


def _milli(cpu: str) -> int:
    return int(cpu.removesuffix("m"))


def _mebi(memory: str) -> int:
    return int(memory.removesuffix("Mi"))


def written_time(seconds: int) -> str:
    """Return a second since 1970 as the API server writes it."""
    # Within the first days of 2026, so that no calendar is needed.
    minutes, second = divmod(seconds - EPOCH, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"2026-01-{days + 1:02}T{hour:02}:{minute:02}:{second:02}Z"
