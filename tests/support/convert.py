"""PodGroups and Workloads of any version for Hypothesis: as a server may have stored them."""

from typing import Any

from hypothesis import strategies as st

from podium.api.convert import VERSIONS

_NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
_TEXTS = st.text(max_size=12)
_OPTIONAL_CLASS = {"priorityClassName": _NAMES, "priority": st.integers(-(2**31), 10**9)}


def _maybe(
    required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


_POLICY: st.SearchStrategy[Any] = st.one_of(
    st.just({"basic": {}}), st.integers(1, 9).map(lambda count: {"gang": {"minCount": count}})
)
_CLAIMS = st.lists(
    st.fixed_dictionaries({"name": _NAMES, "resourceClaimName": _NAMES}),
    max_size=2,
    unique_by=lambda claim: claim["name"],
)
_CONSTRAINTS = st.lists(st.fixed_dictionaries({"key": _NAMES}), max_size=1).map(
    lambda topology: {"topology": topology}
)
_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "schedulingConstraints": _CONSTRAINTS,
    "resourceClaims": _CLAIMS,
    **_OPTIONAL_CLASS,
}
_OLDER_MODE = st.sampled_from(("Pod", "PodGroup"))
_NEWER_MODE: st.SearchStrategy[Any] = st.sampled_from(({"single": {}}, {"all": {}}))
_PREEMPTION = st.sampled_from(("Never", "PreemptLowerPriority"))


def _template(*, newer: bool) -> st.SearchStrategy[Any]:
    required = {"name": _NAMES, "schedulingPolicy": _POLICY}
    if newer:
        return _maybe(required, **_COMMON, disruptionMode=_NEWER_MODE, preemptionPolicy=_PREEMPTION)
    return _maybe(required, **_COMMON, disruptionMode=_OLDER_MODE)


def _group_spec(*, newer: bool) -> st.SearchStrategy[Any]:
    required = {"schedulingPolicy": _POLICY}
    if newer:
        ref = st.fixed_dictionaries({"workloadName": _NAMES, "templateName": _NAMES})
        return _maybe(
            required, **_COMMON, workloadRef=ref, disruptionMode=_NEWER_MODE, preemptionPolicy=_PREEMPTION
        )
    workload = st.fixed_dictionaries({"workloadName": _NAMES, "podGroupTemplateName": _NAMES})
    older_ref = st.fixed_dictionaries({"workload": workload})
    return _maybe(required, **_COMMON, podGroupTemplateRef=older_ref, disruptionMode=_OLDER_MODE)


def _workload_spec(*, newer: bool) -> st.SearchStrategy[Any]:
    templates = st.lists(
        _template(newer=newer), min_size=1, max_size=3, unique_by=lambda template: template["name"]
    )
    controller = st.fixed_dictionaries({"apiGroup": st.just("batch"), "kind": st.just("Job"), "name": _NAMES})
    return _maybe({"podGroupTemplates": templates}, controllerRef=controller)


_CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                (
                    "PodGroupScheduled",
                    "PodGroupInitiallyScheduled",
                    "DisruptionTarget",
                    "PodsNotMatchingPriority",
                )
            ),
            "status": st.sampled_from(("True", "False")),
        }
    ),
    max_size=3,
    unique_by=lambda condition: condition["type"],
)
_METADATA = _maybe(
    {"name": _NAMES},
    namespace=_NAMES,
    labels=st.dictionaries(_NAMES, _TEXTS, max_size=2),
    annotations=st.dictionaries(_NAMES, _TEXTS, min_size=1, max_size=2),
    finalizers=st.just(["example.com/hold"]),
    ownerReferences=st.just([{"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": "1-2"}]),
)
SERVER_OWNED = {
    "uid": "0-1",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-11-21T00:00:00Z",
    "managedFields": [],
}


@st.composite
def objects(draw: st.DrawFn, version: str | None = None, *, live: bool = True) -> dict[str, Any]:
    """Draw a PodGroup or Workload with every field its version shares with others; no field of alpha gates.

    A `live` object may have fields that only a server writes.
    """
    version = version or draw(st.sampled_from(sorted(VERSIONS)))
    kind = draw(st.sampled_from(("PodGroup", "Workload")))
    spec = (_group_spec if kind == "PodGroup" else _workload_spec)(newer=VERSIONS[version].newer)
    document: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": draw(_METADATA)}
    if live and draw(st.booleans()):
        document["metadata"] |= SERVER_OWNED
    document["spec"] = draw(spec)
    if kind == "PodGroup" and draw(st.booleans()):
        document["status"] = {"conditions": draw(_CONDITIONS)}
    return document
