"""The sentences that all formats for people share, so that a table and a page use the same words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from podium.answers.audits.report import (
    AuditSummary,
    Blocked,
    Compared,
    DivergentGroup,
    DivergentPod,
    IgnoreShare,
    IgnoreState,
    NotChecked,
)
from podium.api.minors import NEAREST
from podium.api.reads import Kind
from podium.text import accelerator_time, count, listed, visible

# The kinds from which blocked groups, pods and accelerators are counted.
_COUNTED = (Kind.POD, Kind.POD_GROUP, Kind.NODE)
_SCHEDULED = (Kind.POD, Kind.POD_GROUP)


def saving_parts(saved: int, asked: int, answered: int, milliseconds: int) -> list[str]:
    """Return what victims saved (accelerator-seconds) and answered, and how long they were awaited."""
    parts = [f"{accelerator_time(saved)} saved"] if saved else []
    if asked:
        waited = f"waited {milliseconds / 1000:,.0f} s"
        parts.append(f"{count(asked, 'pod')} asked to save, {answered:,} did, {waited}")
    return parts


def headline(summary: AuditSummary) -> str:
    """Return the most important sentence: what will not be scheduled on the chosen version."""
    if parts := blocked_parts(summary.blocked):
        return f"{listed(parts)} will not schedule on Kubernetes {summary.kubernetes}."
    minor = f"Kubernetes {summary.kubernetes}"
    if summary.errors:
        errors = f"{count(summary.errors, 'error')} must be fixed"
        if not _has_scheduled(summary):
            return f"{errors}; no pod and no group was read for {minor}."
        return f"{errors}; no rule found that a pod or group which exists cannot be scheduled on {minor}."
    if not _has_scheduled(summary):
        return f"No pod and no group was read, so no scheduling was checked for {minor}."
    if doubts := _doubts(summary):
        return f"No rule found a reason against scheduling on {minor}, but {listed(doubts)}."
    return f"All checked groups and pods can be scheduled on {minor}."


def is_all_clear(summary: AuditSummary) -> bool:
    """Return whether all that exists can be scheduled, as far as an audit can tell."""
    wrong = blocked_parts(summary.blocked) or summary.errors or _doubts(summary)
    return _has_scheduled(summary) and not wrong


def _has_scheduled(summary: AuditSummary) -> bool:
    return any(summary.objects.get(kind) for kind in _SCHEDULED)


def _doubts(summary: AuditSummary) -> list[str]:
    """Return what keeps an audit without findings from being an all-clear."""
    doubts = []
    if summary.waiting:
        wait = "waits" if summary.waiting == 1 else "wait"
        doubts.append(f"{count(summary.waiting, 'group')} {wait}, or will wait, for more pods")
    if summary.waitingPods:
        wait = "waits" if summary.waitingPods == 1 else "wait"
        doubts.append(f"{count(summary.waitingPods, 'pod')} {wait} (podium why tells the reason)")
    if summary.strayPods:
        names = "names" if summary.strayPods == 1 else "name"
        doubts.append(f"{count(summary.strayPods, 'pod')} {names} a group that was not read")
    if not summary.objects.get(Kind.NODE):
        doubts.append("no node was read")
    elif any(missing.kind == Kind.NODE for missing in summary.notChecked):
        doubts.append("its nodes were not checked")
    return doubts


def release_line(summary: AuditSummary) -> str:
    """Return for which release the report is, and why."""
    return f"Kubernetes {summary.kubernetes}: {visible(summary.chosenBy)}."


def is_of_another_release(summary: AuditSummary) -> bool:
    """Return whether the rules do not know the release of the input, which a reader must know first."""
    return NEAREST in summary.chosenBy


def blocked_parts(blocked: Blocked) -> list[str]:
    """Return the numbers of groups, pods and accelerators; zeros are left out."""
    accelerators = sum(blocked.accelerators.values())
    amounts = ((blocked.groups, "group"), (blocked.pods, "pod"), (accelerators, "accelerator"))
    return [count(number, noun) for number, noun in amounts if number]


def findings_line(summary: AuditSummary, groups: Sequence[DivergentGroup]) -> str:
    """Return the numbers of findings that count by severity, and of divergent groups."""
    numbers = ((summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info"))
    new = new_to(summary)
    severities = [count(number, f"{new}{noun}") for number, noun in numbers if number]
    divergent = count(len(groups), "divergent group") if groups else "no divergent group"
    return f"{listed(severities) or f'No {new}findings'}; {divergent}."


def findings_title(summary: AuditSummary) -> str:
    """Return the heading of the findings that count."""
    return f"{new_to(summary)}findings by rule".capitalize()


def new_to(summary: AuditSummary) -> str:
    """Return the adjective of findings that count: `new `, or an empty text without a baseline."""
    return "" if summary.baseline is None else "new "


def aside_lines(summary: AuditSummary) -> list[str]:
    """Return paragraphs on findings that do not count, and on baselines and ignores that need attention."""
    lines = []
    if summary.baseline is not None:
        lines.append(_compared(summary.baseline, summary.kubernetes))
    if summary.ignores:
        states = Counter(share.state for share in summary.ignores)
        parts = [f"Ignored: {count(summary.ignored, 'finding')}."]
        if expired := states[IgnoreState.EXPIRED]:
            parts.append(f"{count(expired, 'ignore')} expired; their findings count again.")
        if unused := states[IgnoreState.UNUSED]:
            parts.append(f"{count(unused, 'ignore')} matched nothing.")
        lines.append(" ".join(parts))
    return lines


def _compared(compared: Compared, kubernetes: str) -> str:
    numbers = [count(compared.known, "known finding"), f"{compared.gone:,} gone"]
    if compared.notLookedFor:
        numbers.append(f"{compared.notLookedFor:,} not checked")
    parts = [f"Compared with {visible(compared.name)}: {listed(numbers)}."]
    if compared.kubernetes != kubernetes:
        parts.append(f"It is for Kubernetes {visible(compared.kubernetes)}.")
    if compared.newlyChecked:
        rules = visible(listed(compared.newlyChecked))
        parts.append(f"It lacks input of {rules}: findings of these rules may not be new.")
    return " ".join(parts)


def holds(share: IgnoreShare) -> str:
    """Return how long an ignore is in effect, or why it is not."""
    match share.state:
        case IgnoreState.EXPIRED:
            return f"expired {share.expires}"
        case IgnoreState.UNUSED:
            return "matches nothing"
        case IgnoreState.NOT_CHECKED:
            return "not checked"
        case IgnoreState.ACTIVE:
            return f"until {share.expires}" if share.expires else "always"


def by_need(ignores: Iterable[IgnoreShare]) -> list[IgnoreShare]:
    """Return ignores that need attention first: expired ones, then those that match nothing."""
    order = [IgnoreState.EXPIRED, IgnoreState.UNUSED]
    return sorted(ignores, key=lambda share: order.index(share.state) if share.state in order else len(order))


def read_line(summary: AuditSummary, source: str) -> str:
    """Return what was read: the number of objects by kind, and the source."""
    read = ", ".join(amounts(summary.objects)) or "nothing"
    return f"Read {read} from {visible(source)}."


def unchecked_line(not_checked: Sequence[NotChecked]) -> str:
    """Return a warning if the first numbers depend on kinds that were not read, or an empty text."""
    kinds = dict.fromkeys(missing.kind for missing in not_checked if missing.kind in _COUNTED)
    if not kinds:
        return ""
    return f"Not read and not counted: {listed(list(kinds))} (reasons at the end)."


def unrun_line(not_checked: Sequence[NotChecked]) -> str:
    """Return how many rules did not run, and the missing kinds by reason; empty if all ran."""
    rules = {rule for missing in not_checked for rule in missing.rules}
    kinds: dict[str, list[str]] = {}
    for missing in not_checked:
        kinds.setdefault(visible(missing.why), []).append(visible(missing.kind))
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in kinds.items())
    return f"{count(len(rules), 'rule')} not or not fully checked ({reasons})." if not_checked else ""


def amounts(numbers: Mapping[str, int]) -> list[str]:
    """Return numbers with names, largest first: `4,000 Pod`."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number:,} {visible(name)}" for name, number in ordered]


def accelerators(blocked: Blocked) -> str:
    """Return the accelerators by resource: `512 nvidia.com/gpu, 8 google.com/tpu`, or `0`."""
    return ", ".join(amounts(blocked.accelerators)) or "0"


def by_value(pods: Iterable[DivergentPod]) -> list[tuple[int, list[str]]]:
    """Return pods, each with its role, by integer: most pods first, then the smaller integer."""
    values: dict[int, list[str]] = {}
    for pod in pods:
        name = f"{pod.pod} ({pod.role})" if pod.role else pod.pod
        values.setdefault(pod.priority, []).append(visible(name))
    return sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))


def group_name(group: DivergentGroup) -> str:
    """Return the name of a group, with a note if it was inferred."""
    name = visible(f"{group.namespace}/{group.name}")
    return name if group.source == "PodGroup" else f"{name} ({visible(group.source)})"
