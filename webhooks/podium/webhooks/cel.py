"""What Podium's rules are in CEL, as far as both the webhooks' match conditions and the policies say it.

Written here once, so that a policy refuses what a webhook would have been sent. The API server's CEL sees
`object` and `oldObject` (null where there is none) as maps at run time; optionals (`.?field`, `[?key]`) read
what may be absent.
"""

import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import GROUP_LABEL, RESERVED
from podium.gangs import AUTO, AUTO_LABEL
from podium.rules.policy import Allowance

# What names of classes and namespaces consist of.
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-."
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def quote(text: str) -> str:
    """Give a text as a CEL literal."""
    return json.dumps(text, ensure_ascii=False)


LABEL_BEFORE = f"oldObject.metadata.?labels[?{quote(GROUP_LABEL)}]"
LABEL = f"object.metadata.?labels[?{quote(GROUP_LABEL)}]"
FIELD = "object.spec.?schedulingGroup.?podGroupName"
CLASS = 'object.spec.?priorityClassName.orValue("")'

# True of what rules judge: an update must not keep a finalizer from going. On create there is no oldObject.
NOT_BEING_DELETED = "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"
# True of a new pod that says it belongs to a group, in either way.
MEMBER = f"object.spec.?schedulingGroup.hasValue() || {LABEL}.hasValue()"
# True of a new pod that asks for a group and has none; the native field counts only where it is served.
ASKS = f"object.metadata.?labels[?{quote(AUTO_LABEL)}] == optional.of({quote(AUTO)}) && !{LABEL}.hasValue()"
# True of a new pod of Podium's scheduler that does not tolerate the taint of reserved nodes with any value.
INTOLERANT = (
    f'object.spec.?schedulerName.orValue("") == {quote(PODIUM_SCHEDULER)} && '
    '!object.spec.?tolerations.orValue([]).exists(t, t.?operator.orValue("") == "Exists" && '
    f't.?key.orValue("") in ["", {quote(RESERVED)}] && t.?effect.orValue("") in ["", "NoSchedule"])'
)
# True of an update that adds, changes or removes the label.
LABEL_CHANGES = f"{LABEL} != {LABEL_BEFORE}"


def elements(spec: str, field: str) -> str:
    """Give a list that may be absent, or null, as Go writes an empty one; `spec` is dynamic."""
    return f"({spec}.?{field}.orValue(null) == null ? [] : {spec}.{field})"


def matches(text: str, patterns: Iterable[str]) -> str:
    """Say that a text is like one of some shell patterns, as `fnmatchcase` reads them.

    `text` is an expression; true only of what names may consist of.
    """
    choices = "|".join(_regex(pattern) for pattern in patterns)
    return f"{text}.matches({quote(f'^({choices})$')})"


def _regex(pattern: str) -> str:
    """Translate one shell pattern into RE2, whose sets are others than fnmatch's."""
    parts, at = [], 0
    while at < len(pattern):
        end = _end(pattern, at)
        parts.append(_set(pattern[at:end]) if end > at + 1 else _character(pattern[at]))
        at = end
    return "".join(parts)


def _end(pattern: str, at: int) -> int:
    """Give where the set that begins here ends, or the next character where none does."""
    if pattern[at] != "[":
        return at + 1
    # A closing bracket that stands first is one of the set.
    first = at + 2 if pattern.startswith("!", at + 1) else at + 1
    return pattern.find("]", first + 1) + 1 or at + 1


def _character(character: str) -> str:
    if character in "*?":
        return ".*" if character == "*" else "."
    return f"\\{character}" if character in _SPECIAL else character


def _set(bracket: str) -> str:
    """Give the same set, spelled out; an empty one matches nothing."""
    # Sorted, the hyphen comes first, where it means no range.
    found = "".join(sorted(each for each in _ALPHABET if fnmatchcase(each, bracket)))
    return f"[{found}]" if found else r"[^\s\S]"


def allowance(allow: Sequence[Allowance]) -> str:
    """Give the index of the allowance that rules in the request's namespace, their number if none does."""
    chain = (f"{matches('request.namespace', each.namespaces)} ? {index}" for index, each in enumerate(allow))
    return " : ".join((*chain, str(len(allow))))


def may_use(patterns: Sequence[str]) -> str:
    """Say that an object's class is one of some patterns; no class always is."""
    return f'{CLASS} == "" || {matches(CLASS, patterns)}'


def classes_allowed(allow: Sequence[Allowance], *, pods: bool) -> str:
    """Say that an object's class may be used in its namespace."""
    chain = []
    for each in allow:
        patterns = each.pods if pods else each.groups
        allowed = "true" if patterns is None else f"({may_use(patterns)})"
        chain.append(f"{matches('request.namespace', each.namespaces)} ? {allowed}")
    return " : ".join((*chain, "true"))
