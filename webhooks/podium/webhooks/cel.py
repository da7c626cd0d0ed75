"""CEL expressions for Podium's rules, shared by the webhooks' match conditions and the policies.

One definition ensures that a policy refuses the same objects that a webhook would match. In the API server's
CEL, `object` and `oldObject` (null if absent) are maps at run time; optionals (`.?field`, `[?key]`) read
fields that may be absent.
"""

import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from podium.api import saving
from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import GROUP_LABEL, RESERVED
from podium.groups.autogroups import AUTO, AUTO_LABEL
from podium.rules.policy import Allowance

# The characters of class and namespace names.
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-."
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def quote(text: str) -> str:
    """Return a text as a CEL literal."""
    return json.dumps(text, ensure_ascii=False)


LABEL_BEFORE = f"oldObject.metadata.?labels[?{quote(GROUP_LABEL)}]"
LABEL = f"object.metadata.?labels[?{quote(GROUP_LABEL)}]"
CLASS = 'object.spec.?priorityClassName.orValue("")'

# Objects being deleted are exempt, so that an update can remove a finalizer. A create has no oldObject.
NOT_BEING_DELETED = "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"
# True for a write that does not depend on the mutating webhook: each group that it has seen has an integer.
MUTATED = 'oldObject != null || object.kind == "Workload" || object.spec.?priority.hasValue()'
# True for a new pod that names a group by field or label.
MEMBER = f"object.spec.?schedulingGroup.hasValue() || {LABEL}.hasValue()"
# True for a new pod that asks for a group and has none; the native field counts only where it is served.
ASKS = f"object.metadata.?labels[?{quote(AUTO_LABEL)}] == optional.of({quote(AUTO)}) && !{LABEL}.hasValue()"
# True for a new pod of podium-scheduler without a toleration for every value of the reserved-node taint.
INTOLERANT = (
    f'object.spec.?schedulerName.orValue("") == {quote(PODIUM_SCHEDULER)} && '
    '!object.spec.?tolerations.orValue([]).exists(t, t.?operator.orValue("") == "Exists" && '
    f't.?key.orValue("") in ["", {quote(RESERVED)}] && t.?effect.orValue("") in ["", "NoSchedule"])'
)
# True for an update that adds, changes or removes the label.
LABEL_CHANGES = f"{LABEL} != {LABEL_BEFORE}"
# True for a write that adds or changes a declaration about saving work.
SAVING_CHANGES = (
    f"[{', '.join(quote(key) for key in saving.KEYS)}].exists(k, object.metadata.?annotations[?k].hasValue() "
    "&& (oldObject == null || object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k]))"
)


def elements(spec: str, field: str) -> str:
    """Return CEL for a list that may be absent or null, Go's form of an empty list; `spec` is dynamic."""
    return f"({spec}.?{field}.orValue(null) == null ? [] : {spec}.{field})"


def matches(text: str, patterns: Iterable[str]) -> str:
    """Return CEL that tests whether a text matches one of some shell patterns, read as by `fnmatchcase`.

    `text` is an expression; the result is correct only for the characters of names.
    """
    choices = "|".join(_regex(pattern) for pattern in patterns)
    return f"{text}.matches({quote(f'^({choices})$')})"


def _regex(pattern: str) -> str:
    """Return a shell pattern as RE2, whose character sets differ from fnmatch's."""
    parts, at = [], 0
    while at < len(pattern):
        end = _set_end(pattern, at)
        parts.append(_set(pattern[at:end]) if end > at + 1 else _character(pattern[at]))
        at = end
    return "".join(parts)


def _set_end(pattern: str, at: int) -> int:
    """Return the end of the set that begins here, or the next index if there is no set."""
    if pattern[at] != "[":
        return at + 1
    # A closing bracket in first place belongs to the set.
    first = at + 2 if pattern.startswith("!", at + 1) else at + 1
    return pattern.find("]", first + 1) + 1 or at + 1


def _character(character: str) -> str:
    if character in "*?":
        return ".*" if character == "*" else "."
    return f"\\{character}" if character in _SPECIAL else character


def _set(bracket: str) -> str:
    """Return the same set with all its characters; an empty set matches nothing."""
    # Sorting puts the hyphen first, where it does not form a range.
    characters = "".join(sorted(character for character in _ALPHABET if fnmatchcase(character, bracket)))
    return f"[{characters}]" if characters else r"[^\s\S]"


def allowance(allow: Sequence[Allowance]) -> str:
    """Return CEL for the index of the allowance for the request's namespace, or their number if none."""
    chain = (f"{matches('request.namespace', item.namespaces)} ? {index}" for index, item in enumerate(allow))
    return " : ".join((*chain, str(len(allow))))


def may_use(patterns: Sequence[str]) -> str:
    """Return CEL that tests whether an object's class matches a pattern; an empty class always does."""
    return f'{CLASS} == "" || {matches(CLASS, patterns)}'


def classes_allowed(allow: Sequence[Allowance]) -> str:
    """Return CEL that tests whether a pod's class is allowed in its namespace."""
    chain = []
    for item in allow:
        allowed = "true" if item.pods is None else f"({may_use(item.pods)})"
        chain.append(f"{matches('request.namespace', item.namespaces)} ? {allowed}")
    return " : ".join((*chain, "true"))
