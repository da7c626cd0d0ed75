"""Generates clusters with devices, and a pod with claims that a lone-pod scheduler handles, from a seed.

Drivers offer pools of devices (`deviceoffers`), and running pods have allocated claims. The pending pod has
claims of its own, shared ones, or claims that cannot be used.

Each case has drivers and classes of its own, because one server holds many cases. No two pods start in the
same second, as in `generator`.
"""

import random
from collections.abc import Sequence

from tests.support.preemption.differential.deviceoffers import ZONE, DeviceOffer, DeviceOffers
from tests.support.preemption.differential.generator import (
    CASE_LABEL,
    EPOCH,
    HOST,
    PREEMPTOR,
    ROLE_LABEL,
    Case,
    Object,
    small_pod_spec,
    written_time,
)

# Cases in a recording, and those of them whose pods differ in more than the alternatives that nodes offer.
CASES, MIXED = 330, 300
API = "resource.k8s.io/v1"
_LOW = ("below-zero", "value-0", "value-10", "value-20", "value-50")
_TOLERATIONS = (
    {"key": "broken", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"key": "broken", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoExecute"},
)
# Defects of a claim of the pending pod.
_WRONG = (
    *("missing", "not-created", "deleted", "not-owner", "not-needed", "no-class"),
    *("error", "error-elsewhere", "too-many"),
)


def device_case(seed: int, index: int, minor: str) -> Case:
    """Make case number `index` of a seed; it is the same for each minor."""
    del minor
    return _DeviceMaker(
        random.Random(f"devices/{seed}/{index}"), f"devices-{index}", prefers=index >= MIXED
    ).make()


class _DeviceMaker:
    """Builds one case: nodes, slices, classes, running pods with their claims, and one pending pod."""

    def __init__(self, dice: random.Random, name: str, *, prefers: bool) -> None:
        """`prefers`: many nodes fit the pending pod, whose claim has alternatives."""
        self.dice, self.name, self.prefers = dice, name, prefers
        self.objects: list[Object] = []
        self.claims: list[Object] = []
        self.started = dice.sample(range(100_000), 100)
        self.offers = DeviceOffers(dice, name)
        self.gpu, self.nic = self.offers.gpu, self.offers.nic
        self.classes = {each: f"{name}-{each}" for each in ("any", "gpu", "good", "absent")}
        self.terminating: list[str] = []
        # The devices that claims have, by driver, pool and name.
        self.used: set[tuple[str, str, str]] = set()
        self.shared: list[str] = []

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def some(self, *weights: int) -> int:
        """Return a number from 0 on by weights."""
        return self.dice.choices(range(len(weights)), weights)[0]

    def make(self) -> Case:
        nodes = [self.node(number) for number in range(self.dice.randint(2, 5))]
        self.offers.make(nodes)
        for name, spec in self.offers.slices:
            self.add(API, "ResourceSlice", {"name": name}, spec=spec)
        self.device_classes()
        for node in nodes:
            for _ in range(self.some(2, 3, 4, 1)):
                self.running(node)
        self.idle_claims()
        if self.prefers:
            self.preferring()
        else:
            self.preemptor()
        self.objects += self.claims
        return Case(self.name, tuple(self.objects), tuple(self.terminating), ("Pod", PREEMPTOR))

    def add(self, version: str, kind: str, metadata: Object, **fields: Object) -> Object:
        made = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        (self.claims if kind == "ResourceClaim" else self.objects).append(made)
        return made

    def node(self, number: int) -> str:
        name = f"{self.name}-{number:02}"
        room = {"cpu": f"{4000 + number * 10}m", "memory": "8Gi", "pods": "110"}
        labels = {CASE_LABEL: self.name, HOST: name, ZONE: f"zone-{number % 2}"}
        status = {"allocatable": room, "capacity": room}
        self.add("v1", "Node", {"name": name, "labels": labels}, spec={}, status=status)
        return name

    def device_classes(self) -> None:
        good = self.dice.choice(self.selectors()[1:])
        both = f'device.driver in ["{self.gpu}", "{self.nic}"]'
        for name, selectors in (("any", [both]), ("gpu", [self.selectors()[0]]), ("good", [both, good])):
            spec: Object = {"selectors": _cel(selectors)}
            if self.chance(0.2):
                spec["config"] = [{"opaque": {"driver": self.gpu, "parameters": {"class": name}}}]
            self.add(API, "DeviceClass", {"name": self.classes[name]}, spec=spec)

    def selectors(self) -> tuple[str, ...]:
        gpu = self.gpu
        return (
            f'device.driver == "{gpu}"',
            f'"model" in device.attributes["{gpu}"] && device.attributes["{gpu}"].model == "a"',
            f'device.attributes["{gpu}"].?numa.orValue(0) == 1',
            f'device.attributes["{self.nic}"].?healthy.orValue(true)',
            f'device.capacity["{gpu}"].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0',
            f'device.attributes["{gpu}"].?driverVersion.orValue(semver("0.1.0")).isGreaterThan(semver("1.2.0"))',
            'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("").endsWith("1")',
        )

    def pod(self, name: str, class_name: str, cpu: int, entries: Sequence[Object]) -> Object:
        spec = small_pod_spec(class_name, cpu, resourceClaims=list(entries))
        return self.add("v1", "Pod", {"name": name, "namespace": self.name, "labels": {}}, spec=spec)

    def running(self, node: str) -> None:
        """Make a pod that runs on a node, with up to two allocated claims."""
        number = sum(each["kind"] == "Pod" for each in self.objects)
        name, entries, names = f"pod-{number:03}", list[Object](), list[str]()
        for place in range(self.some(3, 4, 1)):
            claim = f"{name}-claim-{place}"
            names += [claim] if self.allocated(claim, node, [_user(name)]) else []
        if names and self.chance(0.4):
            self.shared.append(names[0])
        elif self.shared and self.chance(0.2):
            names.append(self.join(name, node))
        entries = [
            {"name": f"c{at}", "resourceClaimName": each} for at, each in enumerate(filter(None, names))
        ]
        cpu = self.dice.choice((500, 1500, 1500, 2500))
        made = self.pod(name, self.dice.choice(_LOW), cpu, entries)
        made["spec"]["nodeName"] = node
        made["status"] = {"phase": "Running", "startTime": written_time(EPOCH + self.started[number])}

    def join(self, pod: str, node: str) -> str:
        """Let a pod use a claim of others that its node can use; return its name, empty for none."""
        for each in self.claims:
            status = each["status"]
            terms = status["allocation"].get("nodeSelector", {"nodeSelectorTerms": []})["nodeSelectorTerms"]
            if each["metadata"]["name"] in self.shared and terms in ([], [_only(node)]):
                status["reservedFor"].append(_user(pod))
                return str(each["metadata"]["name"])
        return ""

    def idle_claims(self) -> None:
        """Make allocated claims that no pod uses, or that pods use that are gone."""
        nodes = [each["metadata"]["name"] for each in self.objects if each["kind"] == "Node"]
        for number in range(self.some(6, 3, 1)):
            users = [_user("gone")] if self.chance(0.5) else []
            self.allocated(f"idle-{number}", self.dice.choice(nodes), users)

    def allocated(self, name: str, node: str, users: Sequence[Object]) -> bool:
        """Make a claim with one to three free devices that a node can use; return whether there were any."""
        free = [
            each
            for each in self.offers.offers
            if each.where in (None, node) or isinstance(each.where, dict)
            if self._key(each) not in self.used
        ]
        admin = self.chance(0.05)
        chosen = self.dice.sample(free, min(len(free), self.some(0, 6, 2, 1)))
        if not chosen:
            return False
        results = [self.result(each, admin=admin) for each in chosen]
        exactly: Object = {"deviceClassName": self.classes["any"], "count": len(chosen)}
        exactly |= {"adminAccess": True} if admin else {}
        # kube-scheduler cannot let further pods use an allocation without a timestamp.
        allocation: Object = {"devices": {"results": results}, "allocationTimestamp": written_time(EPOCH)}
        wheres = [each.where for each in chosen]
        if node in wheres:
            allocation["nodeSelector"] = {"nodeSelectorTerms": [_only(node)]}
        elif any(wheres):
            allocation["nodeSelector"] = next(filter(None, wheres))
        self.claim(
            name,
            [{"name": "r0", "exactly": exactly}],
            status={"allocation": allocation, "reservedFor": list(users)},
        )
        return True

    def _key(self, offer: DeviceOffer) -> tuple[str, str, str]:
        return offer.driver, offer.pool, offer.device["name"]

    def result(self, offer: DeviceOffer, *, admin: bool) -> Object:
        """Return the result of an allocation, and count the device as used unless it can be shared."""
        driver, pool, device = self._key(offer)
        made: Object = {"request": "r0", "driver": driver, "pool": pool, "device": device}
        if admin:
            return made | {"adminAccess": True}
        if offer.device.get("allowMultipleAllocations"):
            share = f"{self.dice.getrandbits(128):032x}"
            parts = share[:8], share[8:12], share[12:16], share[16:20], share[20:]
            amount = self.dice.choice(("1Gi", "2Gi", "8Gi"))
            return made | {"shareID": "-".join(parts), "consumedCapacity": {"memory": amount}}
        self.used.add((driver, pool, device))
        return made

    def claim(self, name: str, requests: Sequence[Object], **fields: Object) -> Object:
        metadata: Object = {"name": name, "namespace": self.name}
        spec: Object = {"devices": {"requests": list(requests)}}
        return self.add(API, "ResourceClaim", metadata, spec=spec, **fields)

    def preemptor(self) -> None:
        """Make the pending pod and its claims; one of them may have a defect."""
        entries, created = list[Object](), list[Object]()
        for place in range(self.some(0, 7, 2, 1)):
            entry, name = f"c{place}", f"wanted-{place}"
            claim = self.wanted(name)
            if self.chance(0.5):
                entries.append({"name": entry, "resourceClaimName": name})
            else:
                entries.append({"name": entry, "resourceClaimTemplateName": "template"})
                created.append({"name": entry, "resourceClaimName": name})
                claim["metadata"]["ownerReferences"] = [_owner(PREEMPTOR)]
        if self.shared and self.chance(0.2):
            shared = {"name": "shared", "resourceClaimName": self.dice.choice(self.shared)}
            entries.insert(self.dice.randrange(len(entries) + 1), shared)
        if self.chance(0.12):
            self.spoil(entries, created)
        self.pending(self.dice.choice((100, 1500, 2500, 3500)), entries, created)

    def preferring(self) -> None:
        """Make a small pending pod whose only claim prefers some devices to others."""
        first, second = self.dice.sample(self.selectors()[1:], 2)
        wishes = [("gpu", [first, second]), ("gpu", [first]), ("any", [second]), ("gpu", []), ("any", [])]
        alternatives = [
            {"name": f"s{at}", "deviceClassName": self.classes[name], "selectors": _cel(wanted)}
            for at, (name, wanted) in enumerate(wishes)
        ]
        self.claim("wanted-0", [{"name": "r0", "firstAvailable": alternatives}])
        self.pending(100, [{"name": "c0", "resourceClaimName": "wanted-0"}], [])

    def pending(self, cpu: int, entries: Sequence[Object], created: Sequence[Object]) -> None:
        """Make the pending pod; `created` are the names of claims from templates."""
        class_name = self.dice.choice(("value-20", *["value-1000"] * 3))
        made = self.pod(PREEMPTOR, class_name, cpu, entries)
        made["metadata"]["labels"] = {ROLE_LABEL: PREEMPTOR}
        made["spec"]["nodeSelector"] = {CASE_LABEL: self.name}
        if created:
            made["status"] = {"resourceClaimStatuses": list(created)}

    def wanted(self, name: str) -> Object:
        """Make a claim of the pending pod that has no devices yet."""
        requests = [self.request(f"r{place}") for place in range(self.some(0, 7, 2, 1))]
        made = self.claim(name, requests)
        devices = made["spec"]["devices"]
        names = [each["name"] for each in requests]
        if self.chance(0.25):
            constraint: Object = {
                self.dice.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): self.dice.choice(
                    (f"{self.gpu}/model", f"{self.gpu}/numa", "resource.kubernetes.io/pcieRoot")
                )
            }
            if self.chance(0.4):
                constraint["requests"] = self.dice.sample(names, self.dice.randint(1, len(names)))
            devices["constraints"] = [constraint]
        if self.chance(0.1):
            devices["config"] = [{"opaque": {"driver": self.gpu, "parameters": {"mode": "x"}}}]
        return made

    def request(self, name: str) -> Object:
        if self.chance(0.5):
            alternatives = [
                {"name": f"s{place}", **self.requirement()} for place in range(self.dice.randint(1, 4))
            ]
            return {"name": name, "firstAvailable": alternatives}
        exactly = self.requirement()
        exactly |= {"adminAccess": True} if self.chance(0.08) else {}
        return {"name": name, "exactly": exactly}

    def requirement(self) -> Object:
        name = self.dice.choices(("any", "gpu", "good"), (4, 2, 2))[0]
        made: Object = {"deviceClassName": self.classes[name]}
        if self.chance(0.07):
            made["allocationMode"] = "All"
        else:
            made["count"] = 1 + self.some(7, 2, 1)
        selectors = self.dice.sample(self.selectors(), self.some(7, 2, 1))
        made |= {"selectors": _cel(selectors)} if selectors else {}
        if self.chance(0.25):
            made["tolerations"] = self.dice.sample(_TOLERATIONS, self.dice.randint(1, 2))
        if self.chance(0.12):
            made["capacity"] = {"requests": {"memory": self.dice.choice(("1Gi", "3Gi", "8Gi", "15Gi"))}}
        return made

    def spoil(self, entries: list[Object], created: list[Object]) -> None:
        """Add a claim with a defect to the pending pod, or a defect to its first claim."""
        what = self.dice.choice(_WRONG)
        entry: Object = {"name": "wrong", "resourceClaimName": "wrong"}
        exactly: Object = {"deviceClassName": self.classes["any"], "count": 1}
        request: Object = {"name": "r0", "exactly": exactly}
        match what:
            case "missing":
                pass
            case "not-created" | "not-needed":
                entry = {"name": "wrong", "resourceClaimTemplateName": "template"}
                created += [{"name": "wrong"}] if what == "not-needed" else []
            case "deleted":
                self.claim("wrong", [request])["metadata"]["finalizers"] = ["example.com/kept"]
                self.terminating.append("wrong")
            case "not-owner":
                self.claim("wrong", [request])
                entry = {"name": "wrong", "resourceClaimTemplateName": "template"}
                created.append({"name": "wrong", "resourceClaimName": "wrong"})
            case "no-class":
                alternative = exactly | {"deviceClassName": self.classes["absent"], "name": "s1"}
                exactly["deviceClassName"] = self.classes["absent"]
                first = {"name": "r0", "firstAvailable": [{"name": "s0", **exactly}, alternative]}
                self.claim("wrong", [self.dice.choice((request, first))])
            case "too-many":
                exactly["count"] = 33
                self.claim("wrong", [request])
            case _:
                # Fails on each device without the attribute, or at the first of one driver.
                attributes = f'device.attributes["{self.gpu}"]'
                own = f'device.driver == "{self.nic}" && ' if what == "error-elsewhere" else ""
                exactly["selectors"] = _cel([f'{own}{attributes}.model == "a"'])
                self.claim("wrong", [request])
        entries.insert(self.dice.randrange(len(entries) + 1), entry)


def _cel(expressions: Sequence[str]) -> list[Object]:
    return [{"cel": {"expression": each}} for each in expressions]


def _only(node: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def _user(pod: str) -> Object:
    return {"resource": "pods", "name": pod, "uid": pod}


def _owner(pod: str) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}
