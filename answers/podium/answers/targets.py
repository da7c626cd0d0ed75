"""The pods and groups that a question names, or that wait in a part of the cluster."""

from collections.abc import Iterable

from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey, membership
from podium.api.reads import Kind
from podium.api.selectors import parse_selector
from podium.cluster.reader import ClusterReader, Name, Target, foreign_keys
from podium.documents.load import NOT_SERVED
from podium.documents.scope import Scope
from podium.errors import AmbiguousNameError, PodiumError, QuestionError
from podium.groups.trees import group_at, root_key
from podium.planner.semantics import Semantics
from podium.text import some

# Maximum number of pending groups and pods in an error.
_NAMED = 5


def target_words(target: Target) -> str:
    """Return kind and name of a preemptor: `PodGroup team-a/train`."""
    if not isinstance(target, GroupKey):
        return f"Pod {'/'.join(target)}"
    return f"{target.kind} {'/'.join(target.qualified)}"


def parse_name(field: str, text: str) -> Name:
    """Return NAMESPACE/NAME as a name. Raises QuestionError."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise QuestionError(field, f"{text!r} is not of the form NAMESPACE/NAME")
    return namespace, name


def with_namespace(field: str, name: Name, named: Iterable[Name]) -> Name:
    """Return a name with its namespace: the only one in which an object of the input is so `named`.

    It is unchanged if it has a namespace, or if no object has the name. Raises AmbiguousNameError if objects
    of several namespaces have it.
    """
    if name[0]:
        return name
    namespaces = sorted({namespace for namespace, known in named if known == name[1]})
    if len(namespaces) > 1:
        problem = f"{name[1]} is in several namespaces: {some(namespaces)}. Write NAMESPACE/{name[1]}"
        raise AmbiguousNameError(field, problem)
    return namespaces[0] if namespaces else "", name[1]


def find_group(view: ClusterReader, name: Name) -> GroupKey | None:
    """Return the key of a group by name, including groups that only pods name, or None.

    Native groups come first, and composite groups last.
    """
    keys = [GroupKey(native, *name, composite) for composite in (False, True) for native in (True, False)]
    return next((key for key in keys if group_at(view, key) is not None or view.members(key)), None)


def group_names(view: ClusterReader) -> set[Name]:
    """Return the names of all groups, including groups that only pods name, and those of other projects."""
    names = {key.qualified for key in (*view.groups, *view.composites, *view.referenced_groups())}
    return names | {(key.namespace, key.name) for key in foreign_keys(view)}


def find_target(view: ClusterReader, name: Name, kind: str = "", tenant: str | None = None) -> Target:
    """Return a pending pod or group by name; without a `kind` (pod or group) the group comes first.

    Raises PodiumError with the possible choices, in the namespace of the `tenant` if there is one.
    """
    name, pod, group = _resolved(view, name, kind, kind or "target")
    target = group or pod
    if target is None:
        problem = _not_found(view, name, Kind.POD if kind == "pod" else Kind.POD_GROUP)
        raise PodiumError(f"{problem}; {pending_words(view, tenant)}")
    return target


def pending_targets(view: ClusterReader, scope: Scope) -> dict[Target, ObjectRef]:
    """Return the pods that wait in a scope, and the groups or trees of such pods, by name.

    Each comes with the object that its plan is counted for: the root or group, the pod's controller, or the
    pod.
    """
    selector = parse_selector(scope.selector)
    sources: dict[Target, ObjectRef] = {}
    for name, pod in sorted(view.pods.items()):
        if scope.namespace not in ("", name[0]) or not pod.pending:
            continue
        if not selector.matches(pod.metadata.labels or {}):
            continue
        key = membership(pod, native_served=view.native_served)
        if key is not None:
            root = root_key(view, key)
            group = group_at(view, root)
            sources[root] = group.ref if group is not None else ObjectRef("", root.kind, *root.qualified)
        else:
            owner = pod.metadata.controller()
            api, kind, own = (owner.apiVersion, owner.kind, owner.name) if owner else ("v1", "Pod", name[1])
            sources[name] = ObjectRef(api, kind, name[0], own)
    return sources


def find_victim(view: ClusterReader, name: Name, kind: str = "") -> Target:
    """Return a pod or group by name. Raises PodiumError; QuestionError if both exist and there is no kind."""
    name, pod, group = _resolved(view, name, kind, "victim")
    if pod is not None and group is not None:
        raise QuestionError("kind", f"{'/'.join(name)} is a pod and a PodGroup")
    target = pod or group
    if target is None:
        kinds = {"pod": (Kind.POD,), "group": (Kind.POD_GROUP,)}
        raise PodiumError(_not_found(view, name, *kinds.get(kind, (Kind.POD, Kind.POD_GROUP))))
    return target


def _resolved(
    view: ClusterReader, name: Name, kind: str, field: str
) -> tuple[Name, Name | None, GroupKey | None]:
    """Return a name with its namespace, and the pod and the group of that name, if they are of the kind."""
    pods, groups = (view.pods if kind != "group" else ()), (group_names(view) if kind != "pod" else ())
    name = with_namespace(field, name, (*pods, *groups))
    return name, name if name in pods else None, find_group(view, name) if kind != "pod" else None


def check_group(target: Target, view: ClusterReader, semantics: Semantics) -> None:
    """Raise PodiumError for members of a group that may exist and was not read.

    If the cluster serves no PodGroups, the group does not exist, and the engine reports that.
    """
    if isinstance(target, GroupKey):
        key: GroupKey | None = target
    else:
        pod = view.pods.get(target) if semantics.rules.groups else None
        key = membership(pod, native_served=view.native_served) if pod is not None else None
    if key is None or key.composite or key in view.groups:
        return
    if view.unread.get(Kind.POD_GROUP, NOT_SERVED) == NOT_SERVED:
        return
    prefix = "" if isinstance(target, GroupKey) else f"{target_words(target)} is in a group, but "
    missing = _not_found(view, key.qualified, Kind.POD_GROUP)
    raise PodiumError(f"{prefix}{missing}; add podgroups to the input, or get permission to list them")


def _not_found(view: ClusterReader, name: Name, *kinds: Kind) -> str:
    """Return that no object of these kinds has the name, with the kinds that were not read and why."""
    foreign = next((key for key in foreign_keys(view) if (key.namespace, key.name) == name), None)
    if foreign is not None and Kind.POD_GROUP in kinds:
        return (
            f"{foreign.ref} is of {foreign.kind.project}, whose groups have no plan. podium why group tells "
            "what it waits for, and podium whatif plans one of its pods"
        )
    unread = "; ".join(f"{kind}: {view.unread[kind]}" for kind in kinds if kind in view.unread)
    label = " or ".join(kind.lower() if kind is Kind.POD else kind for kind in kinds)
    return f"{label} {'/'.join(filter(None, name))} not found{f' ({unread})' if unread else ''}"


def namespace_of(target: Target) -> str:
    """Return the namespace of a preemptor."""
    return target.namespace if isinstance(target, GroupKey) else target[0]


def pending_words(view: ClusterReader, tenant: str | None) -> str:
    """Return some of the pending groups and pods in words."""
    targets = pending_targets(view, Scope(tenant or ""))
    groups = {"/".join(target.qualified) for target in targets if isinstance(target, GroupKey)}
    pods = {"/".join(target) for target in targets if not isinstance(target, GroupKey)}
    parts = [
        f"pending {noun}: {some(names, _NAMED)}"
        for noun, names in (("groups", groups), ("pods", pods))
        if names
    ]
    return "; ".join(parts) or f"no pod is pending{f' in {tenant}' if tenant is not None else ''}"
