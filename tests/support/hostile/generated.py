"""Generated hostile objects: pods that are extreme in several things at once, and what they depend on.

A generated pod is made of dimensions, each of which makes one thing extreme by a number. It may use claims
with generated selectors, belong to a tree of groups, and be full. Objects that the API server refuses are no
attack; the others are checked like a row of the table.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st
from tests.support.hostile.attacked import DELETE_DENIED, ODD_RESOURCES, STATUS_DENIED, WIDE
from tests.support.hostile.honest import HOST, LOW, NODES, ZONE
from tests.support.hostile.rows.devices import doubled, exactly
from tests.support.hostile.rows.refused import LARGE_ENV, pad
from tests.support.hostile.rows.trees import TEMPLATE, composite
from tests.support.hostile.tenant import DEVICE_CLAIMS, PODS, Tenant, container

from podium.api.groups import GROUP_LABEL
from podium.groups.trees import MAX_DEPTH

Pod = dict[str, Any]
Dimension = Callable[[Pod, int, str], None]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# The share of etcd's limit of 1.5 MiB for one of several dimensions.
_MOST = 2_000
_MOST_TEXT = 400_000
_MOST_COPIES = 8
_MOST_SELECTORS = 3
_MOST_WIDTH = 40
# Below that of the honest gang, so that a group may be evicted for it.
_CLASS: dict[str, Any] = {"priorityClassName": LOW}
_MOST_DIMENSIONS = 4


class Tree(NamedTuple):
    """The groups above the pods: composite groups one below the other, and `width` groups below the last.

    The root of a `cycle` names the last composite group as its parent.
    """

    levels: int
    width: int
    cycle: bool


class Generated(NamedTuple):
    """Copies of one pod, and their later changes."""

    pod: Pod
    copies: int
    group: str  # "", podium, native or missing
    tree: Tree | None  # Instead of a group.
    selectors: tuple[str, ...]  # One claim for each.
    full: bool
    deleted: bool


def _extended(pod: Pod, count: int, text: str) -> None:
    resources = pod["spec"]["containers"][0].setdefault("resources", {"requests": {}, "limits": {}})
    for number in range(count):
        resources["requests"][f"g.x/{number}"] = resources["limits"][f"g.x/{number}"] = text


def _offered_by_one(pod: Pod, count: int, text: str) -> None:
    resources = pod["spec"]["containers"][0].setdefault("resources", {"requests": {}, "limits": {}})
    for name in ODD_RESOURCES[:count]:
        resources["requests"][name] = resources["limits"][name] = text


def _amount(name: str) -> Dimension:
    def change(pod: Pod, count: int, text: str) -> None:
        asks = pod["spec"]["containers"][0].setdefault("resources", {"requests": {}, "limits": {}})
        asks["requests"][name] = text

    return change


def _containers(pod: Pod, count: int, text: str) -> None:
    resources = {"requests": {"memory": text}}
    pod["spec"]["containers"] += [container(f"c{number}", resources=resources) for number in range(count)]


def _node_selector(pod: Pod, count: int, text: str) -> None:
    pod["spec"]["nodeSelector"] = {f"key-{number}": "v" for number in range(count)}


def _tolerations(pod: Pod, count: int, text: str) -> None:
    pod["spec"]["tolerations"] += [{"key": f"key-{number}", "operator": "Exists"} for number in range(count)]


def _labels(pod: Pod, count: int, text: str) -> None:
    pod["metadata"]["labels"] |= {f"label-{number}": "v" for number in range(count)}


def _text(pod: Pod, count: int, text: str) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "<" * min(count * 100, _MOST_TEXT)}]


def _denied(label: str) -> Dimension:
    def change(pod: Pod, count: int, text: str) -> None:
        pod["metadata"]["labels"][label] = "yes"

    return change


def _volumes(pod: Pod, count: int, text: str) -> None:
    claims = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(count)]
    pod["spec"]["volumes"] = claims


def _ports(pod: Pod, count: int, text: str) -> None:
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": n, "hostPort": n} for n in range(1, count + 1)]


def _owners(pod: Pod, count: int, text: str) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "<" * count}
    pod["metadata"]["ownerReferences"] = [{**owner, "uid": f"u{n}"} for n in range(min(count, 100))]


def _gates(pod: Pod, count: int, text: str) -> None:
    pod["spec"]["schedulingGates"] = [{"name": f"example.com/g{number}"} for number in range(count)]


def _terms(kind: str, key: str, reach: Mapping[str, Any]) -> Dimension:
    def change(pod: Pod, count: int, text: str) -> None:
        terms = [
            {"topologyKey": key, "labelSelector": {"matchLabels": {f"a{n}": "b"}}, **reach}
            for n in range(count)
        ]
        pod["spec"].setdefault("affinity", {})[kind] = {
            _REQUIRED: terms[: count // 2],
            _PREFERRED: [{"weight": 100, "podAffinityTerm": term} for term in terms[count // 2 :]],
        }

    return change


def _node_terms(pod: Pod, count: int, text: str) -> None:
    expressions = [{"key": f"key-{n}", "operator": "NotIn", "values": ["a", text[:60]]} for n in range(count)]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: terms}


def _spreads(pod: Pod, count: int, text: str) -> None:
    keys = [HOST, ZONE, *(f"key-{number}" for number in range(count))][: max(count, 1)]
    fields = {"maxSkew": count + 1, "labelSelector": {}, "whenUnsatisfiable": "ScheduleAnyway"}
    pod["spec"]["topologySpreadConstraints"] = [{"topologyKey": key, **fields} for key in keys]


DIMENSIONS: dict[str, Dimension] = {
    "extended resources": _extended,
    "resources of one node": _offered_by_one,
    "cpu": _amount("cpu"),
    "memory": _amount("memory"),
    "ephemeral storage": _amount("ephemeral-storage"),
    "offered": _amount("example.com/offered"),
    "containers": _containers,
    "nodeSelector": _node_selector,
    "tolerations": _tolerations,
    "labels": _labels,
    "text": _text,
    "deletion denied": _denied(DELETE_DENIED),
    "status denied": _denied(STATUS_DENIED),
    "volumes": _volumes,
    "ports": _ports,
    "owners": _owners,
    "gates": _gates,
    "affinity": _terms("podAffinity", HOST, {}),
    "anti-affinity": _terms("podAntiAffinity", HOST, {"namespaceSelector": {}}),
    "anti-affinity to everything": _terms(
        "podAntiAffinity", ZONE, {"labelSelector": {}, "namespaceSelector": {}}
    ),
    "anti-affinity by nothing": _terms("podAntiAffinity", "no.such/key", {"labelSelector": {}}),
    "node affinity": _node_terms,
    "spreads": _spreads,
}
# Whole numbers, which all resources take, at the limits of 10, 53 and 63 bits, and past them.
AMOUNTS = st.sampled_from(
    [
        "0",
        "1",
        "999",
        "1024",
        "4503599627370496",
        "4503599627370497",
        "9223372036854775807",
        "1e18",
        "8Ei",
        "1E",
    ]
) | st.integers(0, 2**64).map(str)
# Functions of a text, which is long and periodic.
_CALLS = (
    "?.lastIndexOf('ab' + ?.substring(1))",
    "?.indexOf(? + 'b')",
    "?.replace('a', '<>')",
    "?.split('a')",
    "?.upperAscii()",
    "?.matches('(a+)+b')",
    "device.driver.matches(?)",
    "?.reverse()",
    "[?, ?].join(?)",
    "quantity(?)",
    "int(?)",
    "?.charAt(7) + ?",
    "[? < device.driver, ? == ? + 'b']",
    "[?, ?].map(a, [a, a].map(b, b + a))",
)
SELECTORS = st.builds(
    lambda call, times, text: doubled(repr(text), times, f"{call} == {call}"),
    st.sampled_from(_CALLS),
    st.integers(1, 18),
    st.sampled_from(["a", "ab", "1", "<", "\u00e9", "aaaaaaaaab"]),
)
TREES = st.builds(Tree, st.integers(1, MAX_DEPTH), st.integers(1, _MOST_WIDTH), st.booleans())
COUNTS = st.sampled_from([0, 1, 2, 30, 300, _MOST]) | st.integers(0, _MOST)


@st.composite
def generated(draw: st.DrawFn) -> Generated:
    """Draw copies of a pod."""
    spec: Pod = {
        "schedulerName": draw(
            st.sampled_from(["podium-scheduler", "podium-scheduler", "default-scheduler", "x"])
        ),
        "containers": [container()],
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": draw(st.sampled_from([0, 1, 2**31, 2**62, 2**63 - 1])),
    }
    spec |= draw(
        st.sampled_from([{}, {}, {"nodeName": NODES[0]}, {"nodeName": f"{WIDE}-0"}, {"nodeName": "none"}])
    )
    spec |= draw(st.sampled_from([{}, _CLASS]))
    pod: Pod = {"metadata": {"labels": {}}, "spec": spec}
    chosen = draw(
        st.lists(st.sampled_from(sorted(DIMENSIONS)), min_size=1, max_size=_MOST_DIMENSIONS, unique=True)
    )
    for name in chosen:
        DIMENSIONS[name](pod, draw(COUNTS), draw(AMOUNTS))
    return Generated(
        pod,
        draw(st.integers(1, _MOST_COPIES)),
        draw(st.sampled_from(["", "", "podium", "native", "missing"])),
        draw(st.none() | TREES),
        tuple(draw(st.just([]) | st.lists(SELECTORS, max_size=_MOST_SELECTORS))),
        draw(st.sampled_from([False, False, False, True])),
        draw(st.booleans()),
    )


def write(tenant: Tenant, example: Generated) -> int:
    """Write the copies; return how many were accepted."""
    pod, accepted = example.pod, 0
    _claim(tenant, pod, example.selectors)
    if example.full:
        pod["spec"]["containers"][0]["env"] = LARGE_ENV
    if example.tree is not None:
        pod["metadata"]["labels"][GROUP_LABEL] = _grow(tenant, example.tree)
    elif example.group == "podium":
        pod["metadata"]["labels"][GROUP_LABEL] = tenant.group(example.copies)
    elif example.group == "native":
        pod["spec"]["schedulingGroup"] = {"podGroupName": tenant.native_group(example.copies)}
    elif example.group == "missing":
        pod["metadata"]["labels"][GROUP_LABEL] = "missing"
    for _ in range(example.copies):
        name = tenant.name()
        copy = {**pod, "metadata": {**pod["metadata"], "name": name}}
        if tenant.tried("POST", PODS, copy).code != 201:
            return accepted
        accepted += 1
        if example.full:
            pad(tenant, f"{PODS}/{name}")
        if example.deleted:
            tenant.tried("DELETE", f"{PODS}/{name}")
    return accepted


def _claim(tenant: Tenant, pod: Pod, selectors: tuple[str, ...]) -> None:
    """Let a pod use a claim for each selector that the API server accepts."""
    named = pod["spec"].setdefault("resourceClaims", [])
    for selector in selectors:
        name = tenant.name()
        spec = {"devices": {"requests": [exactly("r", selector)]}}
        if tenant.tried("POST", DEVICE_CLAIMS, {"metadata": {"name": name}, "spec": spec}).code == 201:
            named.append({"name": name, "resourceClaimName": name})


def _grow(tenant: Tenant, tree: Tree) -> str:
    """Create a tree of groups; return the name of a group at its bottom."""
    names = [tenant.name(f"level-{level}") for level in range(tree.levels)]
    for level, parent in enumerate([names[-1] if tree.cycle else "", *names[:-1]]):
        above: dict[str, Any] = {"parentCompositePodGroupName": parent} if parent else {}
        composite(tenant, f"level-{level}", **_CLASS, **above)
    below = {"parentCompositePodGroupName": names[-1], **_CLASS, **TEMPLATE}
    return [tenant.group(1, **below) for _ in range(tree.width)][-1]
