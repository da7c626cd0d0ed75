"""Rules about PriorityClasses and integers stored from them: gone, recreated, doubled, missing, unused."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from shlex import quote

from podium.api.core import Pod
from podium.api.findings import Severity
from podium.api.groups import PodGroup
from podium.api.priority import (
    HIGHEST_USER_PRIORITY,
    MINIMUM_PREEMPTABLE_PRIORITY,
    NEVER,
    SYSTEM_CLASSES,
    SYSTEM_PREFIX,
    TOLERATION_PREFIX,
    TOLERATION_SECONDS,
    default_class,
    effective_policy,
    newer_default,
    resolve,
    toleration,
    toleration_key,
)
from podium.api.reads import Kind
from podium.audit.survey import AuditFinding, StoredValues, Survey
from podium.rules.commands import annotate_class, class_ref, create_class, delete, recreate, templates_of
from podium.rules.rule import Rule
from podium.rules.tolerations import (
    SOURCE,
    contradicting,
    unreadable,
)
from podium.text import count, listed, some

CLASS_MISSING = Rule(
    id="class-missing",
    severity=Severity.ERROR,
    title="Pods or groups name a PriorityClass that does not exist or is not in the input",
    why="Stored pods keep their priority. The API server refuses new pods that name the class, so a "
    "restarted or evicted pod does not come back. Its preemption toleration is unknown, so Podium's "
    "scheduler lets only system classes preempt these pods.",
    source="kube-apiserver (Priority admission); deletion of a class in use is allowed",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.POD}),
)
CLASS_VALUE_CHANGED = Rule(
    id="class-value-changed",
    severity=Severity.ERROR,
    title="Live pods or groups store another priority than their class has",
    why="A class is immutable, so administrators delete and recreate it. Stored pods and groups "
    "keep the old value, and new ones differ from them.",
    source="kubernetes/kubernetes#99205",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.POD}),
)
DEFAULT_CLASS_DUPLICATE = Rule(
    id="default-class-duplicate",
    severity=Severity.WARNING,
    title="Several PriorityClasses are the global default",
    why="Admission forbids it, but a race or a restored etcd can cause it. The smallest value "
    "wins; between equal values the choice is arbitrary.",
    source="kube-apiserver (Priority admission)",
    needs=frozenset({Kind.PRIORITY_CLASS}),
)
DEFAULT_CLASS_MISSING = Rule(
    id="default-class-missing",
    severity=Severity.WARNING,
    title="No PriorityClass is the global default, and groups mix members with and without a class",
    why="Without a default, pods without a class have priority 0, while other members of the group "
    "have more. Reported only if a group and its live pods mix.",
    source="kube-apiserver (Priority admission)",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.POD, Kind.POD_GROUP}),
)
DEFAULT_CLASS_SYSTEM = Rule(
    id="default-class-system",
    severity=Severity.ERROR,
    title="A system class is the global default",
    why="Each new pod without a class gets its value, and so preempts nearly all others. An API server "
    "accepts that on an update of the class.",
    source="kube-apiserver (Priority admission)",
    needs=frozenset({Kind.PRIORITY_CLASS}),
)
DEFAULT_CLASS_NEWER = Rule(
    id="default-class-newer",
    severity=Severity.WARNING,
    title="Pods without a class are older than the default class",
    why="A pod keeps the priority of its creation, and its replacement gets the value of the default class. "
    "After one restart, replacements with a higher value can preempt the older pods one after the other. "
    "Pods that no controller replaces, and static pods, do not count.",
    source="grafana.com/blog, 24 July 2019 (a production outage by pod priorities)",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.POD}),
)
CLASS_UNUSED = Rule(
    id="class-unused",
    severity=Severity.INFO,
    title="A PriorityClass is not used",
    why="Every class is one more level to consider, and every namespace may use it.",
    source="Podium",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.POD, Kind.OWNER}),
)
TOP_CLASS_SHARE = Rule(
    id="top-class-share",
    severity=Severity.INFO,
    title="Half of all pods or more are in the highest class",
    why="If most pods have the highest class, priority does not order them and preemption finds no "
    "victims. System classes do not count; clusters with fewer than 20 pods or one level are "
    "skipped.",
    source="Podium (priority inflation)",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.POD}),
)
_TOP_SHARE_PERCENT = 50
_TOP_SHARE_LEAST_PODS = 20


def class_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find class names that are stored and cannot be resolved; one finding for each class."""
    pods = _pods_by_class(survey, (use for use in survey.stored if _unknown(survey, use.class_name)))
    groups = _groups_by_class(
        group for group in survey.view.groups.values() if _unknown(survey, group.priority_class_name)
    )
    for name in sorted(pods.keys() | groups.keys()):
        stored = {pod.spec.priority or 0 for pod in pods[name]} | {g.priority or 0 for g in groups[name]}
        value = str(min(stored)) if len(stored) == 1 else f"<one of {_values(stored)}>"
        namers = [pod.metadata for pod in pods[name]] + [group.metadata for group in groups[name]]
        absent = survey.absent(Kind.PRIORITY_CLASS, namers)
        holders = _holders(pods[name], groups[name], live=absent)
        if absent:
            message = (
                f"it does not exist, but it is named by {holders}, with priority {_values(stored)}. "
                "The API server refuses new objects that name it."
            )
            fix = f"{create_class(name, value)}; or name another class in their templates"
        else:
            message = (
                f"it is not in the input, but it is named by {holders}. If it does not exist in the cluster, "
                "the API server refuses them."
            )
            fix = f"add PriorityClass {name} to the input, or name another class"
        yield AuditFinding(
            CLASS_MISSING.finding(class_ref(name), "", message, fix),
            f"create PriorityClass {name}, or name another class instead" if absent else fix,
        )


def class_value_changed(survey: Survey) -> Iterator[AuditFinding]:
    """Find classes whose value differs from that stored in pods and groups; one finding for each class."""
    pods = _pods_by_class(
        survey, (use for use in survey.stored if _stale(survey, use.class_name, use.priority))
    )
    groups = _groups_by_class(
        group
        for group in survey.view.groups.values()
        if _stale(survey, group.priority_class_name, group.priority)
    )
    for name in sorted(pods.keys() | groups.keys()):
        resolved = resolve(survey.view.classes, name)
        assert resolved is not None
        stored = {pod.spec.priority or 0 for pod in pods[name]} | {g.priority or 0 for g in groups[name]}
        recreation = recreate(survey.owners(pods[name])) if pods[name] else ""
        parts = [recreation] if recreation else []
        parts += [f"{delete(group.ref)}; recreate it" for group in groups[name][:1]]
        yield AuditFinding(
            CLASS_VALUE_CHANGED.finding(
                class_ref(name),
                "value",
                f"its value is {resolved.value}, but other priorities, {_values(stored)}, are stored "
                f"by {_holders(pods[name], groups[name])}.",
                "; ".join(parts) or f"recreate them, so that they store {resolved.value}",
            ),
            f"recreate objects that are older than the current value of PriorityClass {name}",
        )


def default_class_newer(survey: Survey) -> Iterator[AuditFinding]:
    """Find, once per cluster, pods without a class whose replacements get another value from the default."""
    default = default_class(survey.view.classes)
    if default is None:
        return
    value, name = default.value or 0, default.metadata.name or ""
    uses = (
        use
        for use in survey.stored
        if newer_default(survey.view.classes, use.class_name, use.priority) and use.priority != value
    )
    candidates = survey.pods_of(uses).values()
    pods = [pod for alike in candidates for pod in alike if _gets_default(survey, pod)]
    if not pods:
        return
    stored = {pod.spec.priority or 0 for pod in pods}
    effect = ""
    if min(stored) < value and len(pods) > 1 and effective_policy(default.preemptionPolicy) != NEVER:
        effect = " and can preempt another of them"
    elif max(stored) > value:
        effect = ", which is lower"
    older = f"{_holders(pods, [])} without a class {'stores' if len(pods) == 1 else 'store'}"
    yield AuditFinding(
        DEFAULT_CLASS_NEWER.finding(
            class_ref(name),
            "globalDefault",
            f"the default class {name} is {value}, but {older} priority {_values(stored)}. Each replacement "
            f"gets {value}{effect}.",
            f"name a class of value {_values(stored)} in {templates_of(survey.owners(pods))}, or recreate "
            "all the pods at once",
        ),
        f"name a class of the old value in templates of pods that are older than the default class {name}",
    )


def _gets_default(survey: Survey, pod: Pod) -> bool:
    """Return whether a pod has a controller that replaces it with a pod without a class.

    The kubelet and not a controller recreates a static pod, and the scheduler does not place it.
    """
    chain = survey.chain(pod) if pod.metadata.deletionTimestamp is None else ()
    if not chain or chain[0].kind == "Node":
        return False
    owners = [survey.view.owners[ref] for ref in chain if ref in survey.view.owners]
    return all(
        any(
            template.spec is None or not template.spec.priorityClassName
            for template in owner.templates.values()
        )
        for owner in owners
        if owner.templates
    )


def default_class_duplicate(survey: Survey) -> Iterator[AuditFinding]:
    """Find globalDefault classes beside the one in force."""
    winner = default_class(survey.view.classes)
    for name, priority_class in survey.view.classes.items():
        if priority_class.globalDefault and priority_class is not winner and winner is not None:
            yield AuditFinding(
                DEFAULT_CLASS_DUPLICATE.finding(
                    class_ref(name),
                    "globalDefault",
                    f"it is the global default beside {winner.metadata.name} ({winner.value or 0}), which is "
                    f"used instead of its {priority_class.value or 0}.",
                    _without_default(name),
                )
            )


def default_class_system(survey: Survey) -> Iterator[AuditFinding]:
    """Find a system class that is the global default."""
    winner = default_class(survey.view.classes)
    name = "" if winner is None else winner.metadata.name or ""
    if winner is not None and name.startswith(SYSTEM_PREFIX):
        yield AuditFinding(
            DEFAULT_CLASS_SYSTEM.finding(
                class_ref(name),
                "globalDefault",
                f"{name} is the global default, so each new pod without a class gets {winner.value or 0}.",
                _without_default(name),
            )
        )


def _without_default(name: str) -> str:
    """Return the command by which a class is the global default no longer."""
    return f"kubectl patch priorityclass {quote(name)} --type=merge -p " + """'{"globalDefault":false}'"""


def default_class_missing(survey: Survey) -> Iterator[AuditFinding]:
    """Find, once per cluster, groups with and without a class among members, for lack of a default."""
    if default_class(survey.view.classes) is not None:
        return
    mixed = []
    for surveyed in survey.groups:
        if surveyed.group is not None:
            named = {bool(stored.class_name) for stored in surveyed.stored}
            if len(named | {bool(surveyed.group.priority_class_name)}) > 1:
                mixed.append(f"{surveyed.ref.namespace}/{surveyed.ref.name}")
    if mixed:
        yield AuditFinding(
            DEFAULT_CLASS_MISSING.finding(
                class_ref("(default)"),
                "globalDefault",
                f"there is no default class, and in {count(len(mixed), 'group')} only some of the "
                f"pods or the group name a class; the others have priority 0: {some(mixed)}.",
                "name a class in every pod template and group, or make one class the global default",
            )
        )


def class_unused(survey: Survey) -> Iterator[AuditFinding]:
    """Find classes that no live pod, group or template names and that are not the default."""
    view = survey.view
    used = {use.class_name for use in survey.stored}
    used.update(group.priority_class_name for group in view.groups.values())
    used.update(group.priority_class_name for group in view.composites.values())
    used.update(
        t.priority_class_name for workload in view.workloads.values() for t in workload.templates.values()
    )
    used.update(
        template.spec.priorityClassName or ""
        for owner in view.owners.values()
        for template in owner.templates.values()
        if template.spec is not None
    )
    used.update(workload.spec.priorityClassName or "" for workload in view.kueue_workloads.values())
    unread = [str(kind) for kind in (Kind.POD_GROUP, Kind.WORKLOAD) if not survey.read(kind)]
    but = f" ({listed(unread)} {'was' if len(unread) == 1 else 'were'} not read)" if unread else ""
    for name, priority_class in view.classes.items():
        if name not in used and not priority_class.globalDefault and not name.startswith(SYSTEM_PREFIX):
            ref = class_ref(name)
            message = f"no live pod, group or template names it{but}."
            # A class without a uid is from a manifest, and other manifests may use it.
            fix = delete(ref) if priority_class.metadata.uid else "remove it, unless other manifests use it"
            yield AuditFinding(CLASS_UNUSED.finding(ref, "", message, fix), "delete the unused classes")


def top_class_share(survey: Survey) -> Iterator[AuditFinding]:
    """Find the highest class in use if it has at least half of the pods, system classes excluded."""
    levels: dict[int, int] = defaultdict(int)
    names: dict[int, set[str]] = defaultdict(set)
    for use in survey.stored:
        value = use.priority or 0
        if value <= HIGHEST_USER_PRIORITY:
            levels[value] += use.pods
            names[value].add(use.class_name)
    pods = sum(levels.values())
    values = {
        priority_class.value or 0
        for name, priority_class in survey.view.classes.items()
        if name not in SYSTEM_CLASSES
    }
    if not levels or pods < _TOP_SHARE_LEAST_PODS or len(values | levels.keys()) < 2:
        return
    top = max(levels)
    share = 100 * levels[top] // pods
    named = sorted(name for name in names[top] if name)
    if share >= _TOP_SHARE_PERCENT and named:
        yield AuditFinding(
            TOP_CLASS_SHARE.finding(
                class_ref(named[0]),
                "",
                f"{share}% of pods ({levels[top]:,} of {pods:,}, system classes left out) have the highest "
                f"priority in use, {top} ({listed(named)}).",
                "move workloads that can wait to a lower class, and allow classes by namespace",
            )
        )


def _unknown(survey: Survey, name: str) -> bool:
    return bool(name) and resolve(survey.view.classes, name) is None


def _stale(survey: Survey, name: str, stored: int | None) -> bool:
    # An integer that was never stored is a different problem: the object has not been through admission.
    resolved = resolve(survey.view.classes, name) if name and stored is not None else None
    return resolved is not None and resolved.value != stored


def _pods_by_class(survey: Survey, uses: Iterable[StoredValues]) -> dict[str, list[Pod]]:
    by_class: dict[str, list[Pod]] = defaultdict(list)
    for use, pods in survey.pods_of(uses).items():
        by_class[use.class_name].extend(pods)
    return by_class


def _groups_by_class(groups: Iterable[PodGroup]) -> dict[str, list[PodGroup]]:
    by_class: dict[str, list[PodGroup]] = defaultdict(list)
    for group in sorted(groups, key=lambda group: group.ref):
        by_class[group.priority_class_name].append(group)
    return by_class


def _holders(pods: list[Pod], groups: list[PodGroup], *, live: bool = True) -> str:
    parts = []
    if pods:
        names = some(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)
        parts.append(f"{count(len(pods), 'live pod' if live else 'pod')} ({names})")
    if groups:
        names = some(f"{group.ref.namespace}/{group.ref.name}" for group in groups)
        parts.append(f"{count(len(groups), 'PodGroup')} ({names})")
    return listed(parts)


def _values(stored: set[int]) -> str:
    return listed([str(value) for value in sorted(stored)])


# Rules about preemption toleration: annotations that do not parse, contradict or have no effect.


_CLASSES = frozenset({Kind.PRIORITY_CLASS})

TOLERATION_WITHOUT_EFFECT = Rule(
    id="toleration-without-effect",
    severity=Severity.WARNING,
    title="A preemption toleration can never apply",
    why="A toleration holds off preemptors above the class's value and below the minimum, for some "
    "time. With a minimum of value + 1 (the default) there are no such preemptors; with 0 "
    "seconds (the default) there is no time.",
    source=SOURCE,
    needs=_CLASSES,
)


def toleration_unreadable(survey: Survey) -> Iterator[AuditFinding]:
    """Find annotations that do not parse."""
    for priority_class in survey.view.classes.values():
        yield from map(AuditFinding, unreadable(priority_class))


def toleration_prefix(survey: Survey) -> Iterator[AuditFinding]:
    """Find annotations that differ under the two prefixes."""
    for priority_class in survey.view.classes.values():
        yield from map(AuditFinding, contradicting(priority_class))


def toleration_without_effect(survey: Survey) -> Iterator[AuditFinding]:
    """Find tolerations that hold back no preemptor."""
    for class_name, priority_class in survey.view.classes.items():
        read, value = toleration(priority_class), priority_class.value or 0
        if read is None or read.unparsed or read.can_apply(value):
            continue
        if read.seconds == 0:
            name, placeholder = TOLERATION_SECONDS, "<seconds, or -1 for no end>"
            why = "it lasts 0 seconds"
        else:
            name, placeholder = MINIMUM_PREEMPTABLE_PRIORITY, f"<more than {value + 1}>"
            why = f"every preemptor of value {value} has at least {read.minimum_preemptable_priority}"
        key = toleration_key(priority_class.metadata.annotations or {}, name) or TOLERATION_PREFIX + name
        yield AuditFinding(
            TOLERATION_WITHOUT_EFFECT.finding(
                class_ref(class_name),
                f"metadata.annotations[{key}]",
                f"the toleration never applies: {why}.",
                annotate_class(class_name, f"{key}={placeholder}"),
            )
        )
