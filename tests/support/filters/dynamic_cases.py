"""Cases of the filters that depend on other pods, for our filters and for a real kube-scheduler."""

from typing import Any, NamedTuple

from tests.support.filters import builders


def term(app: str | None, key: str = "zone", **more: Any) -> dict[str, Any]:
    """Return a term that selects the pods of an app; None for a term without a selector."""
    selector = None if app is None else {"matchLabels": {"app": app}}
    return {"topologyKey": key, "labelSelector": selector, **more}


def affinity(*terms: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    """Return the spec of a pod with these required terms."""
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def anti_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod with these required terms of anti-affinity."""
    return affinity(*terms, kind="podAntiAffinity")


def spread(app: str, key: str = "zone", **more: Any) -> dict[str, Any]:
    """Return the spec of a pod that spreads an app with a skew of at most one."""
    selector = {"matchLabels": {"app": app}}
    hard = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [{**hard, **more}]}


def port(number: int, **more: Any) -> dict[str, Any]:
    """Return the spec of a pod that takes a port of its host."""
    return {"containers": [builders.container(ports=[{"hostPort": number, "containerPort": number, **more}])]}


def disk(kind: str, **fields: Any) -> dict[str, Any]:
    """Return the spec of a pod that names a disk itself."""
    return {"volumes": [{"name": "disk", kind: fields}]}


def image(*monitors: str, **more: Any) -> dict[str, Any]:
    """Return the spec of a pod with an image of a Ceph cluster."""
    return disk("rbd", monitors=list(monitors), image="i", **more)


A: dict[str, Any] = {"labels": {"app": "a"}}
B: dict[str, Any] = {"labels": {"app": "b"}}
ANYWHERE: dict[str, str] = {}
NODES = {"m": {"zone": "1"}, "n": {"zone": "1"}, "o": {"zone": "2"}, "p": {}}
# The features that nodes declare.
FEATURES = {"n": ["RestartAllContainersOnContainerExits"]}
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]


class Case(NamedTuple):
    """Running pods, an incoming pod, and the message of each node that refuses it.

    m and n are in zone 1, o is in zone 2, p in none.
    """

    standing: list[tuple[dict[str, Any], str]]
    pod: dict[str, Any]
    says: dict[str, str]


CASES = {
    "a feature is required of the node": Case(
        [],
        {"containers": [{**builders.container(), "restartPolicy": "Never", "restartPolicyRules": RULES}]},
        dict.fromkeys("mop", "features"),
    ),
    "a host port is taken once a node": Case([(port(80), "m")], port(80), {"m": "ports"}),
    "another protocol is another port": Case([(port(80), "m")], port(80, protocol="UDP"), ANYWHERE),
    "another address is another port": Case(
        [(port(80, hostIP="10.0.0.1"), "m")], port(80, hostIP="10.0.0.2"), ANYWHERE
    ),
    "every address is taken beside one": Case([(port(80, hostIP="10.0.0.1"), "m")], port(80), {"m": "ports"}),
    "one address is taken beside every": Case([(port(80), "m")], port(80, hostIP="10.0.0.1"), {"m": "ports"}),
    "a disk has one pod of a node that writes": Case(
        [
            (disk("gcePersistentDisk", pdName="d"), "m"),
            (disk("gcePersistentDisk", pdName="d", readOnly=True), "n"),
        ],
        disk("gcePersistentDisk", pdName="d", readOnly=True),
        {"m": "disk"},
    ),
    "a disk of AWS has one pod of a node": Case(
        [(disk("awsElasticBlockStore", volumeID="d", readOnly=True), "m")],
        disk("awsElasticBlockStore", volumeID="d", readOnly=True),
        {"m": "disk"},
    ),
    "an image is the same if a monitor is": Case(
        [(image("a", "b"), "m"), (image("c"), "n"), (image("b", readOnly=True), "o")],
        image("b", pool="rbd", readOnly=True),
        {"m": "disk"},
    ),
    "a target of iSCSI has one pod of a node": Case(
        [(disk("iscsi", targetPortal="10.0.0.1", iqn="iqn.2016-12.server:a", lun=0), "m")],
        disk("iscsi", targetPortal="10.0.0.2", iqn="iqn.2016-12.server:a", lun=1),
        {"m": "disk"},
    ),
    "affinity reaches as far as the key's value": Case(
        [(A, "m")], {**B, **affinity(term("a"))}, {"o": "affinity", "p": "affinity"}
    ),
    "the first of its kind goes wherever the key is": Case(
        [(B, "m")], {**A, **affinity(term("a"))}, {"p": "affinity"}
    ),
    "a pod with affinity to others is not the first of its own": Case(
        [], {**A, **affinity(term("b"))}, dict.fromkeys("mnop", "affinity")
    ),
    "one pod must match all terms": Case(
        [(A, "m"), (B, "m")], {**A, **affinity(term("a"), term("b"))}, dict.fromkeys("mnop", "affinity")
    ),
    "a term without a selector matches no pod": Case(
        [(A, "m")], {**A, **affinity(term(None))}, dict.fromkeys("mnop", "affinity")
    ),
    "affinity is within the own namespace": Case(
        [({**A, "namespace": "team-b"}, "m")], {**B, **affinity(term("a"))}, dict.fromkeys("mnop", "affinity")
    ),
    "affinity reaches a namespace by name": Case(
        [({**A, "namespace": "team-b"}, "m")],
        {**B, **affinity(term("a", namespaces=["team-b"]))},
        {"o": "affinity", "p": "affinity"},
    ),
    "affinity reaches a namespace by label": Case(
        [({**A, "namespace": "team-b"}, "m")],
        {**B, **affinity(term("a", namespaceSelector={"matchLabels": {"env": "test"}}))},
        {"o": "affinity", "p": "affinity"},
    ),
    "affinity towards a pod that is being deleted": Case(
        [({**A, "terminating": True}, "m")],
        {**B, **affinity(term("a", "host"))},
        {"n": "affinity", "o": "affinity", "p": "affinity"},
    ),
    "anti-affinity keeps a zone free": Case(
        [(A, "m")], {**B, **anti_affinity(term("a"))}, {"m": "anti-affinity", "n": "anti-affinity"}
    ),
    "anti-affinity of those that stand": Case(
        [({**B, **anti_affinity(term("a"))}, "m")], A, {"m": "existing", "n": "existing"}
    ),
    "anti-affinity of a node without the key": Case([({**B, **anti_affinity(term("a"))}, "p")], A, ANYWHERE),
    "spread fills the emptiest zone": Case(
        [(A, "m")], {**A, **spread("a")}, {"m": "skew", "n": "skew", "p": "label"}
    ),
    "spread counts only its namespace": Case(
        [({**A, "namespace": "team-b"}, "m")], {**A, **spread("a")}, {"p": "label"}
    ),
    "spread does not count what is being deleted": Case(
        [({**A, "terminating": True}, "m")], {**A, **spread("a")}, {"p": "label"}
    ),
    "a pod that its constraint does not select": Case([(A, "m")], {**B, **spread("a")}, {"p": "label"}),
    "too few domains count as an empty one": Case(
        [(A, "m"), (A, "o")],
        {**A, **spread("a", minDomains=3)},
        {"m": "skew", "n": "skew", "o": "skew", "p": "label"},
    ),
    "a zone that the pod may not have is no domain": Case(
        [(A, "m")], {**A, **spread("a"), "nodeSelector": {"zone": "1"}}, {"p": "label"}
    ),
    "unless affinity is ignored": Case(
        [(A, "m")],
        {**A, **spread("a", nodeAffinityPolicy="Ignore"), "nodeSelector": {"zone": "1"}},
        {"m": "skew", "n": "skew", "p": "label"},
    ),
    "only the own revision is spread": Case(
        [({"labels": {"app": "a", "rev": "1"}}, "m")],
        {"labels": {"app": "a", "rev": "2"}, **spread("a", matchLabelKeys=["rev"])},
        {"p": "label"},
    ),
}
