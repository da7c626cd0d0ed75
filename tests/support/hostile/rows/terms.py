"""Terms: selectors, affinities, spreads and tolerations, in large numbers and scopes."""

from typing import Any

from tests.support.hostile.honest import HOST, NODES, ZONE
from tests.support.hostile.table import Table
from tests.support.hostile.tenant import PODS, Tenant

ROWS = Table()
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
# Every pod of every namespace.
EVERYTHING: dict[str, Any] = {"labelSelector": {}, "namespaceSelector": {}}
_OTHER = "default-scheduler"


def _node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _affinity(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {_REQUIRED: list(terms)}}


def apart(key: str = HOST, **labels: str) -> dict[str, Any]:
    """Return the anti-affinity to pods of these labels."""
    return _affinity("podAntiAffinity", {"topologyKey": key, "labelSelector": {"matchLabels": labels}})


@ROWS.row
def selector_of_many_keys(tenant: Tenant) -> None:
    """12,000 keys of a nodeSelector."""
    tenant.pod(nodeSelector={f"key-{number}": "v" for number in range(12_000)})


@ROWS.row
def selectors_of_many_keys(tenant: Tenant) -> None:
    """The same three times with other keys, and once in a pod of another scheduler."""
    for number in range(3):
        tenant.pod(nodeSelector={f"key-{number}-{part}": "v" for part in range(12_000)})
    tenant.pod(nodeSelector={f"other-{part}": "v" for part in range(12_000)}, schedulerName=_OTHER)


@ROWS.row
def many_node_terms(tenant: Tenant) -> None:
    """3,000 alternative terms."""
    terms = [{"matchExpressions": [_expression(f"key-{number}", "Exists")]} for number in range(3_000)]
    tenant.pod(affinity=_node_affinity(*terms))


@ROWS.row
def many_node_expressions(tenant: Tenant) -> None:
    """A term of 5,000 expressions, each with a key of its own."""
    expressions = [_expression(f"key-{number}", "NotIn", "a", "b") for number in range(5_000)]
    tenant.pod(affinity=_node_affinity({"matchExpressions": expressions}))


@ROWS.row
def many_values(tenant: Tenant) -> None:
    """20,000 values of one expression."""
    values = [f"value-{number}" for number in range(20_000)]
    tenant.pod(affinity=_node_affinity({"matchExpressions": [_expression(HOST, "NotIn", *values)]}))


@ROWS.row
def numbers_that_are_none(tenant: Tenant) -> None:
    """Gt and Lt of text, of 1,000 digits, and of a sign alone."""
    for value in ("x", "9" * 1_000, "-", "0x10", "1_0", "\u0663", " 1"):
        expressions = [_expression("size", "Gt", value), _expression("size", "Lt", value)]
        affinity = {
            "nodeAffinity": {_PREFERRED: [{"weight": 1, "preference": {"matchExpressions": expressions}}]}
        }
        if tenant.tried("POST", f"{PODS}?dryRun=All", _bare(tenant, affinity)).code == 201:
            tenant.pod(affinity=affinity)


def _bare(tenant: Tenant, affinity: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "none"}], "affinity": affinity}
    return {"metadata": {"name": tenant.name()}, "spec": spec}


@ROWS.row
def nodes_by_name(tenant: Tenant) -> None:
    """2,000 terms that each name a node that does not exist."""
    terms = [
        {"matchFields": [_expression("metadata.name", "In", f"none-{number}")]} for number in range(2_000)
    ]
    tenant.pod(affinity=_node_affinity(*terms))


@ROWS.row
def many_affinity_terms(tenant: Tenant) -> None:
    """3,000 terms that each require another pod."""
    terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {f"a{n}": "b"}}} for n in range(3_000)]
    tenant.pod(affinity=_affinity("podAffinity", *terms))


@ROWS.row
def many_anti_affinity_terms(tenant: Tenant) -> None:
    """3,000 terms of anti-affinity, each with a topology key of its own."""
    terms = [
        {"topologyKey": f"key-{n}", "labelSelector": {"matchLabels": {f"a{n}": "b"}}} for n in range(3_000)
    ]
    tenant.pod(affinity=_affinity("podAntiAffinity", *terms))


@ROWS.row
def many_anti_affinity_terms_on_a_node(tenant: Tenant) -> None:
    """2,000 terms of a running pod that select every incoming pod."""
    selectors = ({"matchExpressions": [_expression(f"a{n}", "Exists")]} for n in range(2_000))
    terms = [{"topologyKey": HOST, "labelSelector": each, "namespaceSelector": {}} for each in selectors]
    tenant.pod(affinity=_affinity("podAntiAffinity", *terms), nodeName=NODES[0])


@ROWS.row
def apart_from_everything_by_nothing(tenant: Tenant) -> None:
    """A pending pod with anti-affinity to every pod of every namespace, by a key that no node has."""
    for _ in range(5):
        tenant.pod(affinity=_affinity("podAntiAffinity", {"topologyKey": "no.such/key", **EVERYTHING}))


@ROWS.row
def apart_from_everything(tenant: Tenant) -> None:
    """A pending pod with anti-affinity to every pod of every namespace, by host and zone."""
    for key in (HOST, ZONE):
        tenant.pod(affinity=_affinity("podAntiAffinity", {"topologyKey": key, **EVERYTHING}))


@ROWS.filling
def apart_from_everything_on_all_nodes(tenant: Tenant) -> None:
    """The same, running on every node: any preemptor must evict it."""
    for node in NODES:
        affinity = _affinity("podAntiAffinity", {"topologyKey": HOST, **EVERYTHING})
        tenant.pod(affinity=affinity, nodeName=node)


@ROWS.row
def together_with_everything(tenant: Tenant) -> None:
    """Pods with required and preferred affinity to every pod of every namespace."""
    preferred = [{"weight": 100, "podAffinityTerm": {"topologyKey": HOST, **EVERYTHING}}]
    for key in (HOST, ZONE, "no.such/key"):
        required = [{"topologyKey": key, **EVERYTHING}]
        tenant.pod(affinity={"podAffinity": {_REQUIRED: required, _PREFERRED: preferred}})


@ROWS.row
def many_preferences(tenant: Tenant) -> None:
    """3,000 preferences of all kinds, with the largest weight."""
    terms = [
        {
            "weight": 100,
            "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {f"a{n}": "b"}}},
        }
        for n in range(1_500)
    ]
    nodes = [
        {"weight": 100, "preference": {"matchExpressions": [_expression(f"k{n}", "DoesNotExist")]}}
        for n in range(1_500)
    ]
    tenant.pod(
        affinity={
            "podAffinity": {_PREFERRED: terms},
            "podAntiAffinity": {_PREFERRED: terms},
            "nodeAffinity": {_PREFERRED: nodes},
        }
    )


@ROWS.row
def large_selector(tenant: Tenant) -> None:
    """A label selector of 1,000 expressions with 30 values each."""
    values = [f"v{number}" for number in range(30)]
    selector = {"matchExpressions": [_expression(f"k{n}", "NotIn", *values) for n in range(1_000)]}
    term = {"topologyKey": HOST, "labelSelector": selector, "namespaceSelector": {}}
    tenant.pod(affinity=_affinity("podAntiAffinity", term))
    tenant.pod(affinity=_affinity("podAntiAffinity", term), nodeName=NODES[1])


@ROWS.row
def many_namespaces(tenant: Tenant) -> None:
    """A term that names 10,000 namespaces."""
    names = [f"namespace-{number}" for number in range(10_000)]
    term = {"topologyKey": HOST, "labelSelector": {}, "namespaces": names}
    tenant.pod(affinity=_affinity("podAntiAffinity", term))


@ROWS.row
def many_label_keys(tenant: Tenant) -> None:
    """A term that adds 1,000 of the pod's labels to its selector (matchLabelKeys)."""
    keys = [f"label-{number}" for number in range(1_000)]
    selector = {"matchLabels": {"a": "b"}}
    term = {"topologyKey": HOST, "labelSelector": selector, "matchLabelKeys": keys}
    labels = {"a": "b", **dict.fromkeys(keys, "x")}
    tenant.pod(metadata={"labels": labels}, affinity=_affinity("podAntiAffinity", term))


def _spread(key: str, selector: dict[str, Any], **fields: Any) -> dict[str, Any]:
    fields = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologyKey": key, "labelSelector": selector, **fields}


@ROWS.row
def many_spreads(tenant: Tenant) -> None:
    """2,000 topology spread constraints, each with a key of its own."""
    tenant.pod(topologySpreadConstraints=[_spread(f"key-{number}", {}) for number in range(2_000)])


@ROWS.row
def many_soft_spreads(tenant: Tenant) -> None:
    """2,000 soft topology spread constraints, of which two have domains."""
    keys = [HOST, ZONE, *(f"key-{number}" for number in range(2_000))]
    spreads = [_spread(key, {}, whenUnsatisfiable="ScheduleAnyway") for key in keys]
    for _ in range(3):
        tenant.pod(topologySpreadConstraints=spreads)


@ROWS.row
def largest_spread(tenant: Tenant) -> None:
    """The largest skew and number of domains."""
    most = 2**31 - 1
    tenant.pod(topologySpreadConstraints=[_spread(HOST, {}, maxSkew=most, minDomains=most)])
    tenant.pod(
        topologySpreadConstraints=[_spread(ZONE, {}, maxSkew=1, minDomains=most, nodeTaintsPolicy="Honor")]
    )


@ROWS.row
def many_tolerations(tenant: Tenant) -> None:
    """8,000 tolerations."""
    tenant.pod(tolerations=[{"key": f"key-{number}", "operator": "Exists"} for number in range(8_000)])


@ROWS.row
def many_kinds_of_tolerations(tenant: Tenant) -> None:
    """Thirty pods with tolerations of their own."""
    for number in range(30):
        tenant.pod(tolerations=[{"key": f"key-{number}", "operator": "Exists"}, {"operator": "Exists"}])


@ROWS.row
def times_of_tolerations(tenant: Tenant) -> None:
    """Seconds of a toleration at both ends of 64 bits."""
    fields = {"operator": "Exists", "effect": "NoExecute"}
    for seconds in (2**63 - 1, -(2**63), -1, 0):
        tenant.pod(tolerations=[{**fields, "tolerationSeconds": seconds}])


@ROWS.row
def shapes_of_their_own(tenant: Tenant) -> None:
    """Forty pending pods with different labels, terms and requests."""
    for number in range(40):
        label = {"shape": f"s{number}"}
        resources = {"requests": {"cpu": f"{4000 + number}m"}}
        tenant.pod(
            {"name": "main", "image": "none", "resources": resources},
            metadata={"labels": label},
            affinity=apart(**label),
            nodeSelector={HOST: NODES[number % len(NODES)]},
        )
