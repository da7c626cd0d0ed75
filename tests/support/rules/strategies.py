"""Objects for Hypothesis, likely and unlikely ones, and clusters and profiles to review them in."""

from typing import Any

from hypothesis import strategies as st
from tests.support.rules.scene import (
    GOLD,
    NEVER,
    Document,
    cluster,
    group,
    priority_class,
    profile,
    stored,
    template,
    workload,
)

from podium.api.groups import GROUP_LABEL
from podium.cluster.state import ClusterState
from podium.rules.policy import Policy, RuleLevel

INHERIT = profile(rules="podium", policy=Policy(levels={"member-priority": RuleLevel.INHERIT}))
PROFILES = [profile("1.36"), profile("1.37"), profile("1.37", "podium"), INHERIT]


def world(*, default: bool) -> ClusterState:
    """Return a cluster with classes, a group of each family, and perhaps a default class."""
    default_class = [priority_class("std", value=5, globalDefault=True)] if default else []
    made = workload({"podGroupTemplates": [template(priorityClassName=NEVER)]}, native=False)
    return cluster(
        *default_class,
        stored(group({"schedulingPolicy": {"basic": {}}, "priorityClassName": NEVER}, name="there")),
        stored(group({"schedulingPolicy": {"basic": {}}}, native=False, name="there"), by=INHERIT),
        stored(made, by=INHERIT),
    )


WORLDS = {default: world(default=default) for default in (False, True)}

names = st.sampled_from([GOLD, NEVER, "std", "nope", "system-node-critical", "", None])
integers = st.sampled_from([None, 0, 5, 1000, 2000, -1, 2_000_001_000])
policies = st.sampled_from([None, "Never", "PreemptLowerPriority", "Sometimes"])
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Document]:
    """Return documents with any of some fields."""
    return st.fixed_dictionaries({}, optional=fields)


priorities: dict[str, st.SearchStrategy[Any]] = {
    "priorityClassName": names,
    "priority": integers,
    "preemptionPolicy": policies,
}
scheduling_policies: st.SearchStrategy[Document | None] = st.sampled_from(
    [{"basic": {}}, {"gang": {"minCount": 2}}, {}, None]
)
modes: st.SearchStrategy[Any] = st.sampled_from(["Pod", "PodGroup", {"all": {}}, {"single": {}}, {}, None])
refs = st.sampled_from([{"workloadName": "w", "templateName": "workers"}, {"workloadName": "no"}, None])


@st.composite
def pods(draw: st.DrawFn) -> Document:
    spec = draw(
        some({**priorities, "schedulingGroup": st.sampled_from([{"podGroupName": "there"}, {}, None])})
    )
    labels = draw(st.sampled_from([None, {GROUP_LABEL: "there"}, {GROUP_LABEL: "no"}]))
    metadata = {"name": "p", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": draw(st.just(spec) | st.none())}


@st.composite
def groups(draw: st.DrawFn) -> Document:
    version = draw(st.sampled_from(["v1alpha2", "v1alpha3", "v1beta1"]))
    fields = {
        **priorities,
        "schedulingPolicy": scheduling_policies,
        "disruptionMode": modes,
        "workloadRef": refs,
    }
    return group(draw(some(fields)), version, native=draw(st.booleans()))


sent = pods() | groups()


HEADERS = [
    ("v1", "Pod"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    *(
        (f"{api_group}/{version}", kind)
        for kind in ("PodGroup", "Workload")
        for api_group in ("scheduling.k8s.io", "scheduling.podium.dev")
        for version in ("v1alpha2", "v1beta1")
    ),
]
FIELDS = [
    "name",
    "labels",
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
    "schedulingPolicy",
    "podGroupTemplates",
    "disruptionMode",
    "priority",
    "priorityClassName",
    "workloadRef",
    "resourceClaims",
    "schedulingConstraints",
    "schedulingGroup",
    "conditions",
]
half_known = st.dictionaries(st.sampled_from(FIELDS), anything | some(priorities), max_size=5)
