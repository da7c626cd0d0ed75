"""The sentences that every format for people shares, so that a table and a page never say it differently.

Also `visible`, which every format that a terminal, a browser or an XML parser reads passes its texts through:
names and annotations come from other people and may hold anything a file can hold.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from podium.api.reads import Kind
from podium.report import Blocked, DivergentGroup, DivergentPod, NotChecked, Summary
from podium.wording import count, listed

# What the number of blocked groups, pods and accelerators is counted from.
_COUNTED = (Kind.POD, Kind.POD_GROUP, Kind.NODE)

# Control characters (terminal escapes), what turns the direction of text or breaks lines, what XML forbids.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Write each character that would not show, or would act, as its escape: `\x1b`, `\u202e`."""
    return _INVISIBLE.sub(_escape, text) if _INVISIBLE.search(text) else text


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def headline(summary: Summary) -> str:
    """Say the one sentence that counts: what will not schedule on the chosen version."""
    blocked = summary.blocked
    accelerators = sum(blocked.accelerators.values())
    amounts = ((blocked.groups, "group"), (blocked.pods, "pod"), (accelerators, "accelerator"))
    parts = [count(number, noun) for number, noun in amounts if number]
    if parts:
        return f"{listed(parts)} will not schedule on Kubernetes {summary.kubernetes}."
    return f"Nothing that was checked is kept from scheduling on Kubernetes {summary.kubernetes}."


def findings_line(summary: Summary, groups: Sequence[DivergentGroup]) -> str:
    """Count the findings by severity, and the divergent groups."""
    numbers = ((summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info"))
    found = [count(number, noun) for number, noun in numbers if number]
    divergent = count(len(groups), "divergent group") if groups else "no divergent group"
    return f"{listed(found) or 'No findings'}; {divergent}."


def read_line(summary: Summary, source: str) -> str:
    """Say what was read: kinds by number, and from where."""
    read = ", ".join(amounts(summary.objects)) or "nothing"
    return f"Read {read} from {visible(source)}."


def unchecked_line(not_checked: Sequence[NotChecked]) -> str:
    """Say that the opening numbers rest on kinds that were not read, or nothing where they do not."""
    kinds = dict.fromkeys(missing.kind for missing in not_checked if missing.kind in _COUNTED)
    if not kinds:
        return ""
    return f"These numbers leave out what was not read: {listed(list(kinds))} (the end says why)."


def amounts(numbers: Mapping[str, int]) -> list[str]:
    """Write numbers by name, most first: `4,000 Pod`."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number:,} {visible(name)}" for name, number in ordered]


def accelerators(blocked: Blocked) -> str:
    """Write the accelerators by resource: `512 nvidia.com/gpu, 8 google.com/tpu`, or `0`."""
    return ", ".join(amounts(blocked.accelerators)) or "0"


def by_value(pods: Iterable[DivergentPod]) -> list[tuple[int, list[str]]]:
    """Gather pods, each with its role, under their integers: most pods first, then the smaller integer."""
    values: dict[int, list[str]] = {}
    for pod in pods:
        name = f"{pod.pod} ({pod.role})" if pod.role else pod.pod
        values.setdefault(pod.priority, []).append(visible(name))
    return sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))


def group_name(group: DivergentGroup) -> str:
    """Name a group as people do, and say when it was inferred."""
    name = visible(f"{group.namespace}/{group.name}")
    return name if group.source == "PodGroup" else f"{name} ({visible(group.source)})"
