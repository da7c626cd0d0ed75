"""Small clusters with every kind of constraint, and the feasible nodes of each pod, by the plain oracles."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from tests.support.filters import builders, plain_dynamic
from tests.support.filters.builders import empty_snapshot
from tests.support.filters.dynamic_scene import NAMESPACES
from tests.unit.planner.filters.test_dynamic_filters import LABELS, PLACES, TEMPLATES

from podium.api.schedulable import Schedulable, SchedulableNode
from podium.planner.shapes import Shape


class Site(NamedTuple):
    """A node to add: its labels, its taint or cordon, its cpus and pods."""

    labels: Mapping[str, str]
    effect: str
    cordoned: bool
    cpu: int
    pods: int


class Guest(NamedTuple):
    """A pod to add: its template, its node (None: pending), whether it is being deleted."""

    which: int
    place: str | None
    terminating: bool


SITES = st.builds(
    Site,
    LABELS,
    st.sampled_from(["", "", "NoSchedule", "PreferNoSchedule"]),
    st.sampled_from([False, False, True]),
    st.integers(1, 4),
    st.integers(1, 5),
)
GUESTS = st.builds(Guest, st.integers(0, 3), st.none() | PLACES, st.booleans())
PREFERRED = st.lists(
    st.builds(
        lambda weight, zone: {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
        },
        st.integers(1, 3),
        st.sampled_from(["1", "2"]),
    ),
    max_size=1,
)


def _asking(template: dict[str, Any], cpu: int, preferred: list[dict[str, Any]]) -> dict[str, Any]:
    (one,) = template["containers"]
    wants = {"requests": {"cpu": str(cpu), "memory": "1Gi"} if cpu else {}}
    spec = {**template, "containers": [{**one, "resources": wants}]}
    if preferred:
        wish = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        spec["affinity"] = {**spec.get("affinity", {}), "nodeAffinity": wish}
    return spec


# Half of them request resources only, as most pods do.
ASKING = st.builds(
    _asking,
    st.builds(lambda app: {"labels": {"app": app}, "containers": [builders.container()]}, st.just("a"))
    | TEMPLATES,
    st.integers(0, 2),
    PREFERRED,
)
SCENES = st.fixed_dictionaries(
    {
        "templates": st.lists(ASKING, min_size=4, max_size=4),
        "sites": st.lists(SITES, min_size=1, max_size=4),
        "guests": st.lists(GUESTS, min_size=1, max_size=8),
    }
)


class MixedCluster:
    """A snapshot, the objects that it was made of, and the oracles."""

    def __init__(
        self,
        templates: Sequence[Mapping[str, Any]],
        sites: Sequence[Site],
        guests: Sequence[Guest],
        *,
        backwards: bool = False,
    ) -> None:
        self.templates = templates
        self.sites = dict(zip("mnop", sites, strict=False))
        self.guests = {f"pod-{number}": guest for number, guest in enumerate(guests)}
        self.nodes = {name: self._node(name, site) for name, site in self.sites.items()}
        self.pods = {name: self._pod(name, guest) for name, guest in self.guests.items()}
        self.snapshot = empty_snapshot()
        read: list[object] = [*self.nodes.values(), *self.pods.values()]
        for each in reversed(read) if backwards else read:
            self.snapshot.apply(None, each)
        self.snapshot.catch_up()
        self.row = {name: row for (_, name), row in self.snapshot.pod_row.items()}

    def _node(self, name: str, site: Site) -> SchedulableNode:
        taints = [{"key": "dedicated", "effect": site.effect}] if site.effect else []
        room = {"cpu": str(site.cpu), "pods": str(site.pods)}
        return builders.node(
            name, room, labels=site.labels, taints=taints, unschedulable=site.cordoned or None
        )

    def _pod(self, name: str, guest: Guest) -> Schedulable:
        place = guest.place if guest.place in self.sites else None
        return builders.pod(name, node=place, terminating=guest.terminating, **self.templates[guest.which])

    def shape(self, name: str) -> Shape:
        return self.snapshot.shapes[self.snapshot.shape.item(self.row[name])]

    def place(self, name: str) -> str | None:
        """Return the node on which a pod counts now."""
        at = self.snapshot.node.item(self.row[name])
        return self.snapshot.names[at] if at >= 0 else None

    def allows(self, name: str, node: str) -> bool:
        """Return whether a pod without a node fits on a node, given the other pods' nodes."""
        others = {other: place for other in self.pods if (place := self.place(other)) is not None}
        held = [self._cpu(other) for other, place in others.items() if place == node]
        site = self.sites[node]
        room = len(held) < site.pods and (not self._cpu(name) or sum(held) + self._cpu(name) <= site.cpu)
        labels = {each: namespace.metadata.labels or {} for each, namespace in NAMESPACES.items()}
        cluster = plain_dynamic.Cluster(
            {
                each: plain_dynamic.Node(
                    site.labels, [{"key": "dedicated", "effect": site.effect}] if site.effect else []
                )
                for each, site in self.sites.items()
            },
            [(self._plain(other), place) for other, place in others.items()],
            labels,
        )
        return (
            room and self._suits(name, site) and not plain_dynamic.refusals(cluster, self._plain(name), node)
        )

    def _suits(self, name: str, site: Site) -> bool:
        spec = self.templates[self.guests[name].which]
        tolerant = site.effect != "NoSchedule" or "tolerations" in spec
        return tolerant and not site.cordoned and spec.get("nodeSelector", {}).items() <= site.labels.items()

    def _cpu(self, name: str) -> int:
        requests = dict(self.shape(name).requests)
        return requests.get("cpu", 0) // 1000

    def _plain(self, name: str) -> plain_dynamic.Pod:
        guest = self.guests[name]
        spec = dict(self.templates[guest.which])
        return plain_dynamic.Pod(
            spec.pop("namespace", builders.NS), spec.pop("labels", {}), spec, terminating=guest.terminating
        )
