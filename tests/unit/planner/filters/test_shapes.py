"""The parts of a pod that decide its nodes: canonical, equal for copies, and explicit about the others."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import (
    claim,
    container,
    empty_snapshot,
    need,
    node,
    pod,
    volume,
    volume_needs,
)
from tests.support.filters.plain_dynamic import matches

from podium.api.claims import claim_names
from podium.api.meta import LabelSelector
from podium.api.schedulable import Schedulable, SchedulableSpec, Taint
from podium.api.selectors import NodeRequirement, Requirement, Selector, node_terms, selector_of
from podium.api.selectors import NodeSelectorTerm as WrittenTerm
from podium.api.storage import PersistentVolume, PersistentVolumeClaim
from podium.cluster.state import ClusterState
from podium.planner.interning import Fingerprints
from podium.planner.plugins.nodeaffinity import NodeAffinityNeed
from podium.planner.plugins.nodeports import HostPort, PortNeed
from podium.planner.plugins.podaffinity.needs import PodAffinityNeed, PodTerm
from podium.planner.plugins.tainttoleration import ShapeToleration
from podium.planner.plugins.topologyspread import SpreadConstraint, SpreadNeed
from podium.planner.shapes import MOST_TERMS, Shape, shape_of

APP_WEB = {"matchLabels": {"app": "web"}}
WEB = Selector((Requirement("app", "In", ("web",)),))
ZONE = "topology.kubernetes.io/zone"


def shape(made: Schedulable, *objects: PersistentVolumeClaim | PersistentVolume) -> Shape:
    snapshot = empty_snapshot()
    for stored in objects:
        snapshot.apply(None, stored)
    return shape_of(made, snapshot.plugins)


def selector(**written: Any) -> Selector:
    odd: dict[str, None] = {}
    made = selector_of(msgspec.convert(written, LabelSelector), odd)
    assert made is not None
    assert not odd
    return made


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


LABELS = {"app": "web", "tier": "2"}
# Operator, values, the result for LABELS with the key `tier`, and for an absent key.
EXPRESSIONS: list[tuple[str, tuple[str, ...], bool, bool]] = [
    ("In", ("1", "2"), True, False),
    ("In", ("1",), False, False),
    ("NotIn", ("1",), True, True),
    ("NotIn", ("2",), False, True),
    ("Exists", (), True, False),
    ("DoesNotExist", (), False, True),
    ("Gt", ("1",), True, False),
    ("Gt", ("2",), False, False),
    ("Gt", ("+1",), True, False),
    ("Lt", ("10",), True, False),
    ("Lt", ("2",), False, False),
    ("Lt", ("ten",), False, False),
    ("Lt", ("1_0",), False, False),
    ("Lt", (str(2**63),), False, False),
    ("Lt", ("5", "6"), False, False),
    ("Near", ("2",), False, False),
]


@pytest.mark.parametrize(("operator", "values", "there", "absent"), EXPRESSIONS)
def test_an_expression_holds_as_in_kubernetes(
    operator: str, values: tuple[str, ...], there: bool, absent: bool
) -> None:
    assert Requirement("tier", operator, values).matches(LABELS) is there
    assert Requirement("size", operator, values).matches(LABELS) is absent


def test_a_label_of_words_is_neither_greater_nor_less() -> None:
    assert not Requirement("app", "Gt", ("1",)).matches(LABELS)
    assert not Requirement("app", "Lt", ("1",)).matches(LABELS)


def test_an_empty_selector_selects_everything_and_an_absent_one_is_kept_apart() -> None:
    assert selector().matches({})
    assert selector().matches(LABELS)
    assert selector_of(None, {}) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"matchLabels": {"a": "1", "b": "2"}}, {"matchLabels": {"b": "2", "a": "1"}}),
        (APP_WEB, {"matchExpressions": [expression("app", "In", "web")]}),
        (
            {"matchExpressions": [expression("a", "In", "y", "x", "y"), expression("b", "Exists")]},
            {"matchExpressions": [expression("b", "Exists"), expression("a", "In", "x", "y")]},
        ),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [expression("a", "In", "1")]},
            {"matchLabels": {"a": "1"}},
        ),
    ],
    ids=["order of labels", "labels as expressions", "order of values", "repeated"],
)
def test_two_ways_to_write_a_selector_are_one(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert selector(**one) == selector(**other)
    assert hash(selector(**one)) == hash(selector(**other))


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
WRITTEN = st.fixed_dictionaries(
    {
        "matchLabels": st.dictionaries(KEYS, VALUES, max_size=2),
        "matchExpressions": st.lists(
            st.one_of(
                st.builds(expression, KEYS, st.sampled_from(["In", "NotIn"]), VALUES, VALUES),
                st.builds(expression, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
            ),
            max_size=3,
        ),
    }
)


@given(WRITTEN, st.dictionaries(KEYS, VALUES))
def test_a_selector_matches_as_it_was_written(written: dict[str, Any], labels: dict[str, str]) -> None:
    assert selector(**written).matches(labels) is matches(written, labels)


NODE_TERMS: dict[str, tuple[dict[str, Any], bool]] = {
    "its label": ({"matchExpressions": [expression("disk", "In", "ssd")]}, True),
    "another label": ({"matchExpressions": [expression("disk", "In", "hdd")]}, False),
    "its name": ({"matchFields": [expression("metadata.name", "In", "node-1")]}, True),
    "not its name": ({"matchFields": [expression("metadata.name", "NotIn", "node-1")]}, False),
    "name and label": (
        {
            "matchExpressions": [expression("disk", "Exists")],
            "matchFields": [expression("metadata.name", "In", "node-2")],
        },
        False,
    ),
}


@pytest.mark.parametrize(("term", "meant"), NODE_TERMS.values(), ids=NODE_TERMS)
def test_a_node_term_is_all_of_its_expressions(term: dict[str, Any], meant: bool) -> None:
    (made,) = node_terms([msgspec.convert(term, WrittenTerm)], {})
    assert made.matches("node-1", {"disk": "ssd"}) is meant


def test_required_node_affinity_without_a_term_is_met_by_no_node() -> None:
    """An absent requirement restricts nothing; an empty term selects nothing."""
    required: dict[str, Any] = {"nodeSelectorTerms": [{}]}
    made = shape(pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}))
    assert need(made, NodeAffinityNeed).required == ()
    assert need(shape(pod()), NodeAffinityNeed).required is None


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        (ShapeToleration(operator="Exists"), Taint("a", "x", "NoExecute"), True),
        (ShapeToleration("a", "Exists"), Taint("a", "x", "NoSchedule"), True),
        (ShapeToleration("b", "Exists"), Taint("a", "x", "NoSchedule"), False),
        (ShapeToleration("a", "Equal", "x"), Taint("a", "x", "NoSchedule"), True),
        (ShapeToleration("a", "Equal", "y"), Taint("a", "x", "NoSchedule"), False),
        (ShapeToleration("a", "Equal"), Taint("a", None, "NoSchedule"), True),
        (ShapeToleration("a", "Equal", "x", "NoExecute"), Taint("a", "x", "NoSchedule"), False),
        (ShapeToleration("a", "Gt", "1"), Taint("a", "2", "NoSchedule"), False),
    ],
)
def test_the_taints_that_a_toleration_covers(
    toleration: ShapeToleration, taint: Taint, tolerated: bool
) -> None:
    assert toleration.tolerates(taint) is tolerated


def test_a_pod_takes_the_ports_of_containers_and_sidecars() -> None:
    made = pod(
        containers=[
            container(ports=[{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]),
            container(ports=[{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"hostPort": 8080}]),
        ],
        initContainers=[
            container(sidecar=True, ports=[{"hostPort": 9090}]),
            container(ports=[{"hostPort": 7070}]),
        ],
    )
    assert need(shape(made), PortNeed).ports == (
        HostPort("TCP", "0.0.0.0", 8080),
        HostPort("TCP", "0.0.0.0", 9090),
        HostPort("UDP", "10.0.0.1", 53),
    )


def test_with_host_network_every_port_is_a_host_port() -> None:
    made = pod(hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])])
    assert need(shape(made), PortNeed).ports == (HostPort("TCP", "0.0.0.0", 80),)


def near(**term: Any) -> PodTerm:
    """Return the term of a pod labelled app=web, v=1 in team-a that requires others near it."""
    written = {"labelSelector": APP_WEB, "topologyKey": ZONE, **term}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [written]}}
    (made,) = need(shape(pod(labels={"app": "web", "v": "1"}, affinity=affinity)), PodAffinityNeed).near
    return made


def test_a_pod_term_selects_its_own_namespace_by_default() -> None:
    assert near() == PodTerm(frozenset({"team-a"}), None, WEB, ZONE)
    assert near(namespaces=["x", "y"]).namespaces == {"x", "y"}
    everywhere = near(namespaceSelector={})
    assert everywhere.namespaces == frozenset()
    assert everywhere.matches("any", {}, {"app": "web"})


def test_a_pod_term_matches_by_namespace_and_label() -> None:
    term = near(namespaces=["x"], namespaceSelector={"matchLabels": {"team": "a"}})
    assert term.matches("x", {}, {"app": "web"})
    assert term.matches("z", {"team": "a"}, {"app": "web"})
    assert not term.matches("z", {}, {"app": "web"})
    assert not term.matches("x", {}, {"app": "db"})


def test_a_pod_term_without_a_selector_matches_no_pod() -> None:
    assert not near(labelSelector=None).matches("team-a", {}, {"app": "web"})


@pytest.mark.parametrize(
    ("term", "more"),
    [
        ({"matchLabelKeys": ["v"]}, [Requirement("v", "In", ("1",))]),
        ({"mismatchLabelKeys": ["v"]}, [Requirement("v", "NotIn", ("1",))]),
        ({"matchLabelKeys": ["absent"]}, []),
        (
            {
                "matchLabelKeys": ["v"],
                "labelSelector": {**APP_WEB, "matchExpressions": [expression("v", "In", "0")]},
            },
            [Requirement("v", "In", ("0",))],
        ),
    ],
    ids=["match", "mismatch", "a label the pod has not", "a server merged it before the label changed"],
)
def test_label_keys_of_a_pod_term_are_merged_once(term: dict[str, Any], more: list[Requirement]) -> None:
    assert near(**term).selector == Selector((*WEB.requirements, *more))


def test_the_terms_that_others_obey_count_first_and_a_pod_with_more_is_not_placed() -> None:
    def terms(number: int) -> list[dict[str, Any]]:
        return [{"topologyKey": f"k{at}", "labelSelector": {}} for at in range(number)]

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for number, missing in ((1, ()), (2, ("more than 1,000 affinity terms",))):
        affinity = {
            "podAffinity": {required: terms(number)},
            "podAntiAffinity": {required: terms(MOST_TERMS - 1)},
        }
        made = shape(pod(affinity=affinity))
        terms_about_pods = need(made, PodAffinityNeed)
        assert (len(terms_about_pods.apart), len(terms_about_pods.near)) == (MOST_TERMS - 1, 1)
        assert made.missing == missing


def test_preferred_anti_affinity_has_a_negative_weight() -> None:
    def wish(weight: int) -> dict[str, Any]:
        term = {"labelSelector": APP_WEB, "topologyKey": ZONE}
        return {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]
        }

    made = need(shape(pod(affinity={"podAffinity": wish(30), "podAntiAffinity": wish(50)})), PodAffinityNeed)
    assert [weight for weight, _ in made.preferred] == [30, -50]
    assert made.near == made.apart == ()


def test_spread_constraints_are_split_into_hard_and_soft_and_get_the_defaults() -> None:
    made = pod(
        labels={"app": "web", "v": "1"},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": APP_WEB,
            },
            {"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
            {
                "maxSkew": 3,
                "topologyKey": "rack",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {},
                "minDomains": 4,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["v", "absent"],
            },
        ],
    )
    made_shape = shape(made)
    assert need(made_shape, SpreadNeed).hard == (
        SpreadConstraint(1, ZONE, WEB),
        SpreadConstraint(3, "rack", Selector((Requirement("v", "In", ("1",)),)), 4, False, True),
    )
    assert need(made_shape, SpreadNeed).soft == (SpreadConstraint(2, "host", None),)


CLAIMED: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}
SSD = {"matchExpressions": [expression("disk", "In", "ssd")]}


def test_a_bound_volumes_node_affinity_is_in_the_shape() -> None:
    """A volume's node affinity is compared with labels only, so a node's name in it excludes nothing."""
    named = {"matchFields": [expression("metadata.name", "In", "n")]}
    made = shape(pod(**CLAIMED), claim("c", "v"), volume("v", terms=[SSD, named]))
    assert volume_needs(made).reach.volumes == (
        (NodeRequirement((Requirement("disk", "In", ("ssd",)),)), NodeRequirement()),
    )
    assert made.missing == ()


def test_an_ephemeral_claim_is_named_after_its_pod() -> None:
    made = pod("web-0", volumes=[{"name": "tmp", "ephemeral": {}}, *CLAIMED["volumes"], {"name": "config"}])
    assert [name for _, name in claim_names(made)] == ["web-0-tmp", "c"]
    mine = claim("web-0-tmp", "v", owner=made.metadata.uid or "")
    assert shape(made, mine, claim("c", "v"), volume("v")).missing == ()


ODD_TERM = {"nodeSelectorTerms": [{"matchFields": [expression("spec.podCIDR", "In", "x")]}]}
ODD_OPERATOR = {"nodeSelectorTerms": [{"matchExpressions": [expression("a", "Near", "x")]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MISSING: dict[str, tuple[dict[str, Any], list[PersistentVolumeClaim | PersistentVolume], str]] = {
    "resource claims of a running pod": (
        {"resourceClaims": [{"name": "gpu"}], "node": "n"},
        [],
        "resource claims",
    ),
    "an unreadable request": (
        {"requests": {"cpu": "-1"}},
        [],
        "spec.containers[0].resources.requests[cpu]: '-1' is negative",
    ),
    "a gated toleration": (
        {"tolerations": [{"key": "a", "operator": "Gt"}]},
        [],
        "the toleration operator Gt",
    ),
    "an action of a spread constraint": (
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "Wait"}]},
        [],
        "the spread constraint action Wait",
    ),
    "a field of nodes": (
        {"affinity": {"nodeAffinity": {REQUIRED: ODD_TERM}}},
        [],
        "the node field expression spec.podCIDR In",
    ),
    "an operator on nodes": (
        {"affinity": {"nodeAffinity": {REQUIRED: ODD_OPERATOR}}},
        [],
        "the node selector operator Near",
    ),
    "an operator on pods": (
        {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [{"labelSelector": {"matchExpressions": [expression("a", "Gt", "1")]}}]
                }
            }
        },
        [],
        "the label selector operator Gt",
    ),
}


@pytest.mark.parametrize(("spec", "objects", "named"), MISSING.values(), ids=MISSING)
def test_unsupported_demands_are_named(
    spec: dict[str, Any], objects: list[PersistentVolumeClaim | PersistentVolume], named: str
) -> None:
    assert shape(pod(**spec), *objects).missing == (named,)


TEMPLATE: dict[str, Any] = {
    "requests": {"cpu": "1", "memory": "1Gi"},
    "labels": {"app": "web"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "b"}, {"key": "a"}],
}


def marked(made: Schedulable) -> bytes | None:
    """Return the fingerprint of a pod whose labels all count."""
    labels = tuple(sorted((made.metadata.labels or {}).items()))
    return Fingerprints(empty_snapshot().plugins).of(made, labels)


def test_copies_share_a_shape_on_any_node() -> None:
    """Name, uid, node, priority, group and times are no part of it."""
    pending, running = pod("a", **TEMPLATE), pod("b", node="n", priority=9, group="g", start="x", **TEMPLATE)
    assert shape(pending) == shape(running)
    assert marked(running) == marked(pod("c", node="m", **TEMPLATE))


def test_order_without_meaning_is_not_in_a_shape() -> None:
    turned = {
        **TEMPLATE,
        "requests": {"memory": "1024Mi", "cpu": "1000m"},
        "tolerations": [{"key": "a"}, {"key": "b"}],
    }
    assert shape(pod("a", **TEMPLATE)) == shape(pod("b", **turned))


DIFFERENT: list[dict[str, Any]] = [
    {"namespace": "team-b"},
    {"labels": {"app": "db"}},
    {"requests": {"cpu": "2"}},
    {"nodeSelector": {"disk": "hdd"}},
    {"tolerations": []},
    {"overhead": {"cpu": "1"}},
    {"resources": {"requests": {"cpu": "9"}}},
    {"initContainers": [container({"cpu": "9"})]},
    {"containers": [container(ports=[{"hostPort": 1}])]},
    {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 1}])]},
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [SSD]}}}},
    {"affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": {}, "topologyKey": "host"}]}}},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "host"}]},
    {"volumes": [{"name": "disk", "rbd": {}}]},
    {"node": "n", "resourceClaims": [{"name": "gpu"}]},
    {"node": "n", "status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "9"}}]}},
    {"node": "n", "status": {"allocatedResources": {"cpu": "9"}, "resources": {"requests": {"cpu": "9"}}}},
    {"node": "n", "status": {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}},
    {"node": "n", "status": {"nodeAllocatableResourceClaimStatuses": [{"resources": {"cpu": "1"}}]}},
]


@pytest.mark.parametrize("change", DIFFERENT, ids=[",".join(change) for change in DIFFERENT])
def test_a_change_of_a_shape_changes_its_fingerprint(change: dict[str, Any]) -> None:
    one, other = pod("a", **TEMPLATE), pod("a", **{**TEMPLATE, **change})
    assert shape(one) != shape(other)
    assert marked(one) != marked(other)


def test_a_pod_with_claims_has_no_fingerprint() -> None:
    assert marked(pod(**CLAIMED)) is None
    assert marked(pod(volumes=[{"name": "tmp", "ephemeral": {}}])) is None


def test_a_state_holds_all_that_scheduling_reads() -> None:
    """The richer reads replace the plain ones, so audit and scheduling may share a State."""
    state = ClusterState(native_served=True)
    state.apply(pod("a", group="g"))
    state.apply(node("n"))
    assert list(state.pods) == [("team-a", "a")]
    assert [list(members) for members in state.referenced_groups().values()] == [["a"]]
    assert list(state.nodes) == ["n"]


def test_null_counts_as_absent_in_a_manifest() -> None:
    """An API server accepts null for any optional field."""
    fields = [field.name for field in msgspec.structs.fields(SchedulableSpec)]
    made = msgspec.convert({"spec": dict.fromkeys(fields), "status": None}, Schedulable)
    assert shape(made).missing == ()


MERGED: list[dict[str, Any]] = [
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "host", "matchLabelKeys": ["app"]}]},
    {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "host", "matchLabelKeys": ["app"]}]}}},
    {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host", "mismatchLabelKeys": ["app"]}]}}},
]


@pytest.mark.parametrize("spec", MERGED, ids=["spread", "affinity", "anti-affinity"])
def test_labels_that_a_pod_takes_into_its_own_selectors_are_in_its_fingerprint(spec: dict[str, Any]) -> None:
    """They decide what its selectors match, whether or not another selector names them."""
    web, other = (pod("a", labels={"app": app}, **spec) for app in ("web", "db"))
    marks = Fingerprints(empty_snapshot().plugins)
    assert marks.of(web, ()) != marks.of(other, ())
