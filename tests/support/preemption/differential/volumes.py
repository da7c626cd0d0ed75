"""Generates clusters in which a pod has volumes, from a seed: claims, disks and attach limits of nodes.

A bound claim names its volume and has the annotation; the volume controller completes both. It also binds a
claim that a volume names, before the scheduler runs. From case number BOUND on, a pod also has claims that
wait for it (`delayed`). Names of objects without a namespace begin with that of the case, because one server
holds many cases. No two pods start in the same second, as in `generator`.
"""

import random
from collections.abc import Mapping, Sequence

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
from tests.support.volumes.generated import delayed_claim, delayed_storage
from tests.support.volumes.manifests import ZONE, in_namespace

# Cases in a recording, and those of them in which all claims are bound, unless they have a fault.
CASES, BOUND = 300, 120
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_EBS = "ebs.csi.aws.com"
_LOW = ("below-zero", "value-0", "value-10", "value-20", "value-50")
_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
_STORAGE = "storage.k8s.io/v1"
_ONE_POD = "ReadWriteOncePod"
# Defects of a claim of the preemptor.
_WRONG = (
    *("none", "lost", "deleted", "unbound", "unknown-class", "prebound"),
    *("ephemeral-none", "ephemeral-other", "ephemeral-unbound", "ephemeral-lost", "ephemeral"),
)


def volume_case(seed: int, index: int, minor: str) -> Case:
    """Make case number `index` of a seed; it is the same for each minor but for what a server drops."""
    dice = random.Random(f"volumes/{seed}/{index}")
    return _VolumeMaker(dice, f"volumes-{index}", minor, delayed=index >= BOUND).make()


class _VolumeMaker:
    """Builds one case: nodes, volumes with claims, running pods, attachments and one pending pod."""

    def __init__(self, dice: random.Random, name: str, minor: str, *, delayed: bool) -> None:
        self.dice, self.name, self.minor, self.delayed = dice, name, minor, delayed
        self.objects: list[Object] = []
        self.started = dice.sample(range(100_000), 100)
        self.drivers = [f"{name}-a.example.com", f"{name}-b.example.com", _EBS]
        self.volumes: list[str] = []
        self.modes: dict[str, str] = {}
        self.terminating: list[str] = []

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def make(self) -> Case:
        nodes = [self.node(number) for number in range(self.dice.randint(2, 4))]
        self.drivers_and_classes()
        for number in range(self.dice.randint(6, 10)):
            self.volume(f"v{number}")
        running = [self.running(node) for node in nodes for _ in range(self.dice.randint(2, 4))]
        self.attachments(nodes, running)
        self.preemptor()
        return Case(self.name, tuple(self.objects), tuple(self.terminating), ("Pod", PREEMPTOR))

    def add(self, version: str, kind: str, metadata: Object, **fields: Object | str) -> Object:
        made = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        self.objects.append(made)
        return made

    def node(self, number: int) -> str:
        """Make a node, mostly in a zone, and mostly with a CSINode."""
        name = f"{self.name}-{number:02}"
        labels = {CASE_LABEL: self.name, HOST: name}
        if self.chance(0.85):
            labels[self.dice.choice((ZONE, ZONE, _OLD_ZONE))] = f"zone-{number % 2}"
        room = {"cpu": "4000m", "memory": "8Gi", "pods": "110"}
        self.add(
            "v1",
            "Node",
            {"name": name, "labels": labels},
            spec={},
            status={"allocatable": room, "capacity": room},
        )
        if self.chance(0.85):
            drivers = [each for each in self.drivers if self.chance(0.85)]
            self.add(
                _STORAGE,
                "CSINode",
                {"name": name},
                spec={"drivers": [self.driver_on(name, each) for each in drivers]},
            )
        return name

    def driver_on(self, node: str, driver: str) -> Object:
        limit = self.dice.choice((None, None, 1, 2, 3, 4) if self.delayed else (None, 1, 1, 1, 2, 2))
        installed: Object = {"name": driver, "nodeID": node, "topologyKeys": []}
        return installed if limit is None else {**installed, "allocatable": {"count": limit}}

    def drivers_and_classes(self) -> None:
        for driver in self.drivers[:2]:
            refuses = self.chance(0.1 if self.delayed else 0.3)
            spec = {"preventPodSchedulingIfMissing": True} if refuses else {}
            if self.delayed:
                spec["storageCapacity"] = driver == self.drivers[0] and self.chance(0.8)
            self.add(_STORAGE, "CSIDriver", {"name": driver}, spec=spec)
        for name, provisioner in (("now", self.drivers[0]), ("old", "kubernetes.io/aws-ebs")):
            metadata = {"name": f"{self.name}-{name}"}
            self.add(
                _STORAGE, "StorageClass", metadata, provisioner=provisioner, volumeBindingMode="Immediate"
            )

    def volume(self, name: str) -> None:
        """Make a volume and its bound claim."""
        mode = self.dice.choice((_ONE_POD, "ReadWriteOnce", "ReadWriteMany"))
        self.claim(name, self.disk_of(name, mode), mode)
        self.volumes.append(name)
        self.modes[name] = mode

    def disk_of(self, name: str, mode: str) -> str:
        """Make a volume and return its name."""
        source: Object = {
            "csi": {"driver": self.dice.choice(self.drivers), "volumeHandle": f"{self.name}-{name}"}
        }
        if self.chance(0.2):
            source = {"awsElasticBlockStore": {"volumeID": f"vol-{self.name}-{name}"}}
        spec: Object = {"capacity": {"storage": "1Gi"}, "accessModes": [mode], **source}
        zones = f"zone-{self.dice.randrange(2)}"
        labels = {self.dice.choice((ZONE, _OLD_ZONE)): zones} if self.chance(0.15) else {}
        if self.chance(0.15):
            near = {"key": ZONE, "operator": "In", "values": [zones]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [near]}]}}
        metadata = {"name": f"{self.name}-{name}", "labels": labels}
        self.add("v1", "PersistentVolume", metadata, spec=spec)
        return f"{self.name}-{name}"

    def claim(self, name: str, volume: str = "", mode: str = "ReadWriteOnce", **more: Object | str) -> Object:
        """Make a claim, which is bound if a volume is named."""
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
        metadata: Object = {"name": name, "namespace": self.name}
        if volume:
            spec["volumeName"] = volume
            metadata["annotations"] = _BOUND
        return self.add("v1", "PersistentVolumeClaim", metadata, spec=spec | more)

    def pod(self, name: str, class_name: str, cpu: int, volumes: Sequence[Object]) -> Object:
        spec = small_pod_spec(class_name, cpu, volumes=list(volumes))
        return self.add("v1", "Pod", {"name": name, "namespace": self.name, "labels": {}}, spec=spec)

    def running(self, node: str) -> Object:
        """Make a pod that runs on a node, with up to three volumes."""
        number = sum(each["kind"] == "Pod" for each in self.objects)
        names = self.dice.sample(self.volumes, self.dice.choice((0, 1, 1, 2, 3)))
        # At most one pod uses a claim of one pod.
        names = [name for name in names if self.modes[name] != "used"]
        self.modes |= {name: "used" for name in names if self.modes[name] == _ONE_POD}
        volumes = [_mounted(name) for name in names] + ([self.disk()] if self.chance(0.45) else [])
        made = self.pod(
            f"pod-{number:03}", self.dice.choice(_LOW), self.dice.choice((100, 500, 1500)), volumes
        )
        made["spec"]["nodeName"] = node
        made["status"] = {"phase": "Running", "startTime": written_time(EPOCH + self.started[number])}
        return made

    def disk(self) -> Object:
        """Return a disk that a pod names itself; there are few, so that pods share them."""
        which, read_only = self.dice.choice("xxy"), self.chance(0.4)
        sources: list[Object] = [
            {"gcePersistentDisk": {"pdName": which, "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{which}"}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.1:3260",
                    "iqn": f"iqn.2016-12.server:{which}",
                    "lun": 0,
                    "readOnly": read_only,
                }
            },
            {
                "rbd": {
                    "monitors": [f"{which}:1", "z:1"][: self.dice.choice((1, 2))],
                    "image": "i",
                    "readOnly": read_only,
                }
            },
        ]
        return {"name": "disk", **self.dice.choice(sources)}

    def attachments(self, nodes: Sequence[str], running: Sequence[Object]) -> None:
        """Attach some volumes of running pods to their nodes, and few others."""
        wanted = {
            (each["persistentVolumeClaim"]["claimName"], pod["spec"]["nodeName"])
            for pod in running
            for each in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in each and self.chance(0.15)
        }
        if self.chance(0.2):
            wanted.add((self.dice.choice(self.volumes), self.dice.choice(nodes)))
        volumes = {
            each["metadata"]["name"]: each["spec"]
            for each in self.objects
            if each["kind"] == "PersistentVolume"
        }
        for name, node in sorted(wanted):
            volume = f"{self.name}-{name}"
            driver = volumes[volume].get("csi", {}).get("driver", _EBS)
            spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
            self.add(_STORAGE, "VolumeAttachment", {"name": f"{volume}-{node}"}, spec=spec)

    def preemptor(self) -> None:
        """Make the pending pod: with volumes that others use, and perhaps one that cannot be used."""
        used = sorted(name for name, mode in self.modes.items() if mode == "used")
        names = self.dice.sample(self.volumes, self.dice.choice((1, 1, 2, 3)))
        if self.chance(0.4):
            # A claim that another pod uses, or a disk, decides more often if it is the only volume.
            names = [self.dice.choice(used)] if used and self.chance(0.4) else []
        volumes = [_mounted(name) for name in names]
        if not names or self.chance(0.2):
            volumes.append(self.disk())
        if self.delayed:
            # Few bound claims beside them, because each keeps the pod off some nodes.
            volumes = [*volumes[: self.dice.choice((0, 0, 0, 1, 2))], *self.delayed_claims()]
        wrong = self.dice.choice(_WRONG) if self.chance(0.1 if self.delayed else 0.3) else ""
        if wrong:
            volumes.insert(self.dice.randrange(len(volumes) + 1), self.wrong(wrong))
        made = self.pod(
            PREEMPTOR,
            self.dice.choice(("value-20", *["value-1000"] * 3)),
            self.dice.choice((100, 1500, 3000)),
            volumes,
        )
        made["metadata"]["labels"] = {ROLE_LABEL: PREEMPTOR}
        made["spec"]["nodeSelector"] = {CASE_LABEL: self.name}
        # The claims that name the pod as their owner come after it.
        self.objects.sort(key=lambda each: "ownerReferences" in each["metadata"])

    def delayed_claims(self) -> list[Object]:
        """Return volumes with claims that wait for the pod; make these, and the storage that they may get."""
        nodes = [each for each in self.objects if each["kind"] == "Node"]
        names = [f"claim-0-{number}" for number in range(self.dice.choice((1, 1, 1, 2, 3)))]
        prefix = f"{self.name}-"
        tracked, other, _ = self.drivers
        storage = delayed_storage(self.dice, nodes, tracked, other, prefix, ties=False)
        claims = [delayed_claim(self.dice, name, nodes, prefix) for name in names]
        for each in storage:
            if each["kind"] == "PersistentVolume":
                self.existing(each, {claim["metadata"]["name"]: claim for claim in claims})
        self.objects += [in_namespace(each, self.name) for each in (*claims, *storage)]
        return [_mounted(name) for name in names]

    def existing(self, volume: Object, claims: Mapping[str, Object]) -> None:
        """Change a volume so that the server and the volume controller leave it as it is.

        kube-scheduler takes a volume that names a claim, whatever its access modes. The controller never
        binds the two if a mode is missing, so the pod would wait for ten minutes.
        """
        spec, metadata = volume["spec"], volume["metadata"]
        spec["csi"] = {"driver": "none.example.com", "volumeHandle": metadata["name"]}
        if metadata.pop("deletionTimestamp", None) is not None:
            self.terminating.append(metadata["name"])
        claim = claims.get(spec.get("claimRef", {}).get("name", ""))
        if claim is not None:
            spec["accessModes"] = sorted({*spec["accessModes"], *claim["spec"]["accessModes"]})
        if volume.pop("status")["phase"] == "Released":
            spec["claimRef"] = {"namespace": self.name, "name": "gone", "uid": "gone"}

    def wrong(self, what: str) -> Object:
        """Return a volume whose claim has one fault, and make the claim."""
        ephemeral = what.startswith("ephemeral")
        name = f"{PREEMPTOR}-tmp" if ephemeral else "wrong"
        made: Object | None = None
        match what.removeprefix("ephemeral-"):
            case "lost":
                made = self.claim(name, "gone")
            case "deleted":
                made = self.claim(name, self.disk_of(name, "ReadWriteOnce"))
                self.terminating.append(name)
            case "unbound":
                made = self.claim(name, storageClassName=f"{self.name}-{self.dice.choice(('now', 'old'))}")
            case "unknown-class":
                made = self.claim(name, storageClassName=f"{self.name}-gone")
            case "prebound":
                made = self.claim(name, volumeName=f"{self.name}-{self.volumes[0]}")
            case "other" | "ephemeral":
                made = self.claim(name, self.disk_of(name, "ReadWriteOnce"))
            case _:
                pass
        if ephemeral and made is not None and what != "ephemeral-other":
            owner = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": PREEMPTOR,
                "uid": PREEMPTOR,
                "controller": True,
            }
            made["metadata"]["ownerReferences"] = [owner]
        if not ephemeral:
            return _mounted(name)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        return {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _mounted(name: str) -> Object:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}
