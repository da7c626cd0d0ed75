"""The closed list of differences between native kinds and Podium's, each documented in docs/differences.md.

An explanation removes its one difference from an exchange and leaves every other. An exchange that is equal
after all of them is explained by those that changed something. A test requires that each was needed, so an
obsolete explanation cannot stay.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from tests.support.parity.case import VERSIONS
from tests.support.parity.compare import Exchange
from tests.support.parity.sides import APPLIES, Document, Way

from podium.api import convert
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP

# A schema refuses some values in other words than upstream. One function holds the pairs, and any text
# outside of them is a difference.
Cause = tuple[str, str]  # a field, and the message about it

# The value in the middle of a refusal.
_VALUE = re.compile(r'\AInvalid value: ("(\\.|[^"\\])*"|\{.*?\}|\[.*?\]|[-\w.]+): ')
_SUPPORTED = re.compile(r"Unsupported value: .*: supported values: (.*)")
_FIXED = re.compile(r"field is immutable$|field cannot be (set once created|cleared once set)$")
_LISTED = re.compile("Too many: |Forbidden: item may not be (added|removed)")
# Messages of a schema in its own words, and upstream's words for them.
_PATTERNS = (
    (r"may not be more than \d+ bytes", r"must be no more than \d+ (bytes|characters)|may not be longer"),
    (r"in body should match", r"must consist of|must start with|name part must|Required value"),
    (
        r"in body should be at least 1 chars|Too short: must be at least 1 character|Unsupported value: \"\"",
        r"Required value",
    ),
    (r"in body should be greater than or equal to 0", "must be greater than or equal to (zero|0)$"),
)


# A schema finds it at the level that is one too many, upstream at the root of the tree.
_DEPTH = "maximum template hierarchy depth"


def judged(cause: Cause) -> bool:
    """Return whether a cause is about a field; a schema's note on unchecked fields is not."""
    return "some validation rules were not checked" not in cause[1]


def alike(native: Cause, podium: Cause) -> bool:
    """Return whether two causes refuse the same thing."""
    (field, text), (ours, words) = native, podium
    if _FIXED.search(text) and _within(ours, field):
        # Upstream checks no further in an immutable field.
        return True
    if _DEPTH in text and _DEPTH in words:
        return _within(ours, field)
    if _LISTED.match(text) and _within(ours, _list_of(field)):
        # The items of a wrong list are not compared either.
        return True
    if words.startswith("Required value") and re.search('one of:|Required value|value: "":', text):
        # Upstream reports an empty struct or union, a schema a field that does not exist.
        return _within(field, ours) or _within(ours, field)
    if text.startswith("Duplicate value") and words.startswith("Duplicate value"):
        # Upstream names every further duplicate, at the item or at its key.
        return _list_of(field) == _list_of(ours)
    return field == ours and (_short(text) == _short(words) or _paraphrased(text, words))


def _within(field: str, parent: str) -> bool:
    return field == parent or field.startswith((f"{parent}.", f"{parent}["))


def _list_of(field: str) -> str:
    return re.sub(r"\[\d+\](\.\w+)?\Z", "", field)


def _short(text: str) -> str:
    """Return a message without the value it is about."""
    supported = _SUPPORTED.match(text)
    if supported:
        return f"Unsupported value: {sorted(supported[1].split(', '))}"
    return _VALUE.sub("Invalid value: ", text)


def _paraphrased(text: str, words: str) -> bool:
    return any(re.search(ours, words) and re.search(theirs, text) for ours, theirs in _PATTERNS)


Mend = Callable[[Exchange], Exchange]

_PREFIX = re.compile(r'\Aadmission webhook "[a-z0-9.-]+\.podium\.dev" denied the request: ')
# The name after both groups have one name.
_KEPT = convert.KEPT.replace(PODIUM_GROUP, NATIVE_GROUP)
_PROTECTION = ("scheduling.k8s.io/podgroup-protection", "scheduling.k8s.io/compositepodgroup-protection")
_LATE = tuple(f'found new finalizers []string{{"{finalizer}"}}' for finalizer in _PROTECTION)
# Errors that only the webhook finds: their texts, and the fields for which the schema has no rules.
_OF_WEBHOOK = re.compile(
    r"name is neither a standard finalizer name nor is it fully qualified"
    r"|detected multiple (values|priority configurations)|must be less than or equal to 1000000000"
    r'|cannot have "all" disruption mode'
)
_WITHOUT_RULES = "spec.compositePodGroupTemplates"
# Fields that Podium's kinds always have, and the native ones behind gates: the last one before 1.38.
_GATED = ("schedulingConstraints", "resourceClaims", "resourceClaimStatuses")
_POLICY = ("preemptionPolicy",)
# Fields of composite groups, and the causes that only they have.
_TREES = ("parentCompositePodGroupName", "compositePodGroupTemplates")
_TREE_PATH = re.compile(rf"\.({'|'.join(_TREES)})\b")
_TREE_TEXT = re.compile(r"must be set when parentComposite|must specify exactly one of: `podGroupTemplates`")
_NO_TEMPLATES = "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
# Go writes some of these fields if they are absent, and leaves others out if they are empty.
_WRITTEN: tuple[tuple[str, Any], ...] = (
    ("podGroupTemplateRef", None),
    ("podGroupTemplates", None),
    ("podGroupTemplates", []),
    ("compositePodGroupTemplates", []),
    ("topology", []),
    ("schedulingConstraints", None),
    ("message", ""),
    ("priorityClassName", ""),
    ("conditions", []),
    ("resourceClaims", []),
    ("resourceClaimStatuses", []),
    ("observedGeneration", 0),
    ("apiGroup", ""),
)
# v1alpha2 makes the list of templates immutable as a whole.
_TEMPLATES_FIXED = (("spec.podGroupTemplates", "Invalid value: field is immutable"),)


class Explanation(NamedTuple):
    """A named difference: the entry of docs/differences.md that gives its reason.

    It exists in some `minors`, and with `gates` while the gates of trees are closed. The table of cases needs
    it in all of these, or in the `needed` ones.
    """

    name: str
    mend: Mend
    minors: Collection[str] = VERSIONS.keys()
    gates: bool = False
    needed: Collection[str] = VERSIONS.keys()


def _both(exchange: Exchange) -> Exchange:
    """Explain the whole exchange."""
    return msgspec.structs.replace(exchange, podium=exchange.native, podium_stored=exchange.native_stored)


def _podium(exchange: Exchange, change: Callable[[Document], Document]) -> Exchange:
    """Change the answer and the stored object of Podium's side."""
    answer = exchange.podium
    if answer.object is not None:
        answer = msgspec.structs.replace(answer, object=change(answer.object))
    stored = exchange.podium_stored
    return msgspec.structs.replace(
        exchange, podium=answer, podium_stored=None if stored is None else change(stored)
    )


def _native(exchange: Exchange, change: Callable[[Document], Document]) -> Exchange:
    """Change the answer and the stored object of the native side."""
    return _swapped(_podium(_swapped(exchange), change))


def _without(value: Any, dropped: Callable[[str, Any], bool]) -> Any:
    """Leave out fields at any depth."""
    if isinstance(value, list):
        return [_without(item, dropped) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without(item, dropped) for key, item in value.items() if not dropped(key, item)}


def _given(exchange: Exchange) -> list[tuple[Any, Any]]:
    """Return every written field at any depth."""
    edits = exchange.case.edits or ()
    return [*_fields(exchange.case.document), *((edit.path[-1], edit.value) for edit in edits)]


def _fields(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _fields(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key, item
            yield from _fields(item)


def _swapped(exchange: Exchange) -> Exchange:
    return msgspec.structs.replace(
        exchange,
        native=exchange.podium,
        podium=exchange.native,
        native_stored=exchange.podium_stored,
        podium_stored=exchange.native_stored,
    )


def _webhook_prefix(exchange: Exchange) -> Exchange:
    """Explain the name of the webhook, which the API server puts before the reason."""
    answer = exchange.podium
    message = _PREFIX.sub("", answer.message)
    return msgspec.structs.replace(exchange, podium=msgspec.structs.replace(answer, message=message))


def _webhook_causes(exchange: Exchange) -> Exchange:
    """A webhook that forbids also names the field; an in-tree plugin names it in the text alone."""
    if exchange.podium.code != 403 or exchange.native.causes:
        return exchange
    return msgspec.structs.replace(exchange, podium=msgspec.structs.replace(exchange.podium, causes=()))


def _empty_or_absent(exchange: Exchange) -> Exchange:
    """Go writes some fields if they are absent, and leaves others out if they are empty."""

    def bare(document: Document) -> Document:
        written = _without(document, lambda *field: field in _WRITTEN)
        return {key: value for key, value in written.items() if (key, value) != ("status", {})}

    return _podium(_native(exchange, bare), bare)


def _protection(exchange: Exchange) -> Exchange:
    """An in-tree plugin adds a finalizer to native groups; the reconciler adds Podium's."""

    def unprotected(document: Document) -> Document:
        metadata = dict(document["metadata"])
        rest = [item for item in metadata.pop("finalizers", []) if item not in _PROTECTION]
        return document | {"metadata": metadata | ({"finalizers": rest} if rest else {})}

    answer = exchange.podium
    rest = tuple(cause for cause in answer.causes if not cause[1].endswith(_LATE))
    if rest != answer.causes:
        if exchange.native.allowed and not rest:
            return _both(exchange)
        return msgspec.structs.replace(exchange, podium=msgspec.structs.replace(answer, causes=rest))
    return _podium(_native(exchange, unprotected), unprotected)


def _webhook_rules(exchange: Exchange) -> Exchange:
    """Explain rules of our webhook, which is not asked if the schema or the metadata is refused."""
    native, podium = exchange.native, exchange.podium
    rest = tuple(
        cause
        for cause in native.causes
        if not _is_of_webhook(cause) or any(alike(cause, other) for other in podium.causes)
    )
    if rest == native.causes or not rest or _PREFIX.match(podium.message):
        return exchange
    return msgspec.structs.replace(exchange, native=msgspec.structs.replace(native, causes=rest))


def _is_of_webhook(cause: tuple[str, str]) -> bool:
    return bool(_OF_WEBHOOK.search(cause[1])) or cause[0].startswith(_WITHOUT_RULES)


def _time_zone(exchange: Exchange) -> Exchange:
    """Go writes a time in UTC; a custom resource keeps it as sent."""

    def utc(value: Any) -> Any:
        if isinstance(value, list):
            return [utc(item) for item in value]
        if isinstance(value, dict):
            return {key: utc(item) for key, item in value.items()}
        return _ZONED.sub(_as_utc, value) if isinstance(value, str) else value

    return _podium(exchange, lambda document: {**document, **_only(document, "status", utc)})


def _only(document: Document, field: str, change: Callable[[Any], Any]) -> Document:
    return {field: change(document[field])} if field in document else {}


def _as_utc(zoned: re.Match[str]) -> str:
    return datetime.fromisoformat(zoned[0]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_ZONED = re.compile(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d\Z")


def _status_metadata(exchange: Exchange) -> Exchange:
    """With a status, upstream refuses some metadata that it would then ignore; a schema does not check it."""
    native = exchange.native
    rest = tuple(cause for cause in native.causes if not cause[0].startswith("metadata."))
    if not exchange.case.subresource or rest == native.causes:
        return exchange
    if exchange.podium.allowed and not rest:
        return _both(exchange)
    return msgspec.structs.replace(exchange, native=msgspec.structs.replace(native, causes=rest))


def _stamped_policy(exchange: Exchange) -> Exchange:
    """Podium's groups get their class's preemptionPolicy; before 1.38 upstream does that behind a gate."""
    if exchange.native.allowed and "the string value of PreemptionPolicy" in exchange.podium.message:
        return _both(exchange)

    def unstamped(document: Document) -> Document:
        metadata = dict(document["metadata"])
        annotations = {key: value for key, value in metadata.pop("annotations", {}).items() if key != _KEPT}
        return document | {"metadata": metadata | ({"annotations": annotations} if annotations else {})}

    return _closed(_podium(exchange, unstamped), _POLICY)


def _gated_fields(exchange: Exchange) -> Exchange:
    """Explain fields that a closed gate drops: Podium's kinds store and validate them."""
    return _closed(exchange, _GATED)


def _closed(exchange: Exchange, gated: Collection[str]) -> Exchange:
    """Explain fields that only Podium's kinds have."""
    answer = exchange.podium
    touched = any(key in gated for key, _ in _given(exchange))
    if touched and exchange.native.allowed and answer.causes == _TEMPLATES_FIXED:
        return _both(exchange)
    without = _podium(exchange, lambda document: _without(document, lambda key, _: key in gated))
    if answer.allowed:
        return without
    path = re.compile(rf"\.({'|'.join(gated)})\b")
    rest = tuple(cause for cause in answer.causes if not path.search(cause[0]))
    if rest == answer.causes or any(map(judged, rest)):
        return msgspec.structs.replace(without, podium=msgspec.structs.replace(answer, causes=rest))
    return _both(exchange)


def _composites(exchange: Exchange) -> Exchange:
    """Explain the fields of composite groups: upstream drops them behind a gate, Podium's kinds have them."""
    answer = exchange.podium
    if not answer.allowed:
        rest = tuple(
            each
            for each in answer.causes
            if not _TREE_PATH.search(each[0]) and not _TREE_TEXT.search(each[1])
        )
        if rest == answer.causes:
            return exchange
        if any(map(judged, rest)):
            return msgspec.structs.replace(exchange, podium=msgspec.structs.replace(answer, causes=rest))
        return _both(exchange)
    given = any(key in _TREES for key, _ in _given(exchange))
    if given and any(_NO_TEMPLATES in text for _, text in exchange.native.causes):
        return _both(exchange)
    return _podium(exchange, lambda document: _without(document, lambda key, _: key in _TREES))


def _name_length(exchange: Exchange) -> Exchange:
    """A Podium group's name is a label on its pods."""
    answer = exchange.podium
    rest = tuple(cause for cause in answer.causes if "it is a label on the group's pods" not in cause[1])
    if rest and rest != answer.causes:
        return msgspec.structs.replace(exchange, podium=msgspec.structs.replace(answer, causes=rest))
    return _both(exchange) if rest != answer.causes and exchange.native.allowed else exchange


def _missing_workload(exchange: Exchange) -> Exchange:
    """1.36 refuses a reference to a template that does not exist; Podium allows it, as 1.37 does."""
    refused = re.search(r"is forbidden: PodGroup rejected: ", exchange.native.message)
    return _both(exchange) if refused and exchange.podium.allowed else exchange


def _blind_replace(exchange: Exchange) -> Exchange:
    """1.36 accepts a PUT without a resourceVersion; a custom resource's is checked before all else."""
    native, podium = exchange.native, exchange.podium
    if exchange.way is not Way.REPLACE_BLINDLY:
        return exchange
    stale = podium.code == 409 or podium.message.startswith("strconv.ParseUint")
    needed = any(field == "metadata.resourceVersion" for field, _ in podium.causes)
    first = (stale and native.code == 400) or (needed and native.causes != podium.causes)
    return _both(exchange) if first else exchange


_NOT_OF_TYPE = re.compile(
    r"in body must be of type|should be less than or equal to 2147483647|must be of type \w+ with format"
    r"|in body must match \w+|in body should be greater than or equal to -2147483648"
)
# An integer with a fraction of zero, which JSON Schema accepts as an integer.
_WHOLE = re.compile(r"cannot unmarshal number -?\d+\.0 ")
_DECODED_PLACE = re.compile(r"Go struct field \w+\.(spec|status)\.|parsing time")
_NOT_DECODED = re.compile(
    r"cannot be handled as a|unable to convert|cannot unmarshal|unrecognized type|parsing time"
    r"|failed to create typed patch"
)


def _wrong_type(exchange: Exchange) -> Exchange:
    """Explain a value that Go cannot decode: 400, 500 of an apply, 422 of a patch; 422 of a schema."""
    ours = any(_NOT_OF_TYPE.search(message) for _, message in exchange.podium.causes)
    native = exchange.native
    messages = [native.message, *(message for field, message in native.causes if field == "patch")]
    theirs = native.code >= 400 and any(map(_NOT_DECODED.search, messages))
    # A schema does not check the part that a write does not change: the spec with a status, and the reverse.
    place = _DECODED_PLACE.search(exchange.native.message)
    if _WHOLE.search(exchange.native.message):
        return _both(exchange)
    if theirs and place and (place[1] == "spec") == bool(exchange.case.subresource):
        return _both(exchange)
    # If both refuse to decode, the metadata or an unknown field, the texts differ.
    both = exchange.podium.code == exchange.native.code == 400
    return _both(exchange) if theirs and (ours or both) else exchange


def _wrapped_integer(exchange: Exchange) -> Exchange:
    """Explain an apply of an integer beyond 32 bits: Go truncates it to 32 bits and validates the rest."""
    ours = any(
        "should be less than or equal to 2147483647" in message for _, message in exchange.podium.causes
    )
    native = exchange.native
    theirs = any("-2147483648" in text for text in (native.message, *(text for _, text in native.causes)))
    return _both(exchange) if ours and theirs and exchange.way in APPLIES else exchange


def _refused_null(exchange: Exchange) -> Exchange:
    """Go reads a null as an absent field; a schema refuses it in an apply, or as an item of a list."""
    null = [field for field, message in exchange.podium.causes if message.endswith('"null"')]
    kept = exchange.way in APPLIES or any(field.endswith("]") for field in null)
    return _both(exchange) if null and kept else exchange


def _keyless(exchange: Exchange) -> Exchange:
    """Validation refuses an applied list item without its key; for a custom resource the merge refuses it."""
    return _both(exchange) if _KEYLESS in exchange.podium.message and exchange.way in APPLIES else exchange


_KEYLESS = "associative list with keys has an element that omits all key fields"


def _empty_in_template(exchange: Exchange) -> Exchange:
    """Explain an empty class in an immutable template: Go reads no class, a schema compares the text."""
    fixed = exchange.podium.causes == _TEMPLATES_FIXED
    emptied = ("priorityClassName", "") in _given(exchange)
    return _both(exchange) if fixed and emptied and exchange.native.allowed else exchange


def _deleting_default(exchange: Exchange) -> Exchange:
    """Explain an object being deleted: our webhook is not called for it, so its mode is not filled in."""
    deleting = "deletionTimestamp" in (exchange.native.object or {}).get("metadata", {})
    fixed = exchange.podium.causes == (("spec.disruptionMode", "Invalid value: field is immutable"),)
    return _both(exchange) if deleting and fixed else exchange


def _unowned_default(exchange: Exchange) -> Exchange:
    """Explain a default: a default from decoding has an owner, a default from our webhook has none."""
    conflict = exchange.native.code == 409 and "spec.disruptionMode" in exchange.native.message
    fixed = [field for field, message in exchange.podium.causes if message.endswith("field is immutable")]
    return _both(exchange) if conflict and fixed == ["spec.disruptionMode"] else exchange


def _schema_text(exchange: Exchange) -> Exchange:
    """The schema refuses the same field with another message."""
    native, podium = exchange.native, exchange.podium
    if not native.code == podium.code == 422 or native.message != podium.message:
        return exchange
    theirs, ours = set(native.causes), {cause for cause in podium.causes if judged(cause)}
    answered = {cause for cause in theirs if any(alike(cause, other) for other in ours)}
    meant = all(any(alike(cause, other) for cause in theirs) for other in ours)
    # A violated schema stops before the rules of neighbouring fields.
    whole = answered == theirs or (answered and not all(map(judged, podium.causes)))
    return _both(exchange) if ours and meant and whole else exchange


EXPLAINED = (
    Explanation("webhook-rules", _webhook_rules),
    Explanation("webhook-prefix", _webhook_prefix),
    Explanation("webhook-causes", _webhook_causes),
    Explanation("empty-or-absent", _empty_or_absent),
    Explanation("protection-finalizer", _protection),
    Explanation("time-zone", _time_zone),
    Explanation("status-metadata", _status_metadata),
    Explanation("stamped-preemption-policy", _stamped_policy, ("1.36", "1.37")),
    Explanation("gated-fields", _gated_fields, gates=True),
    Explanation("composite-groups", _composites, ("1.37", "1.38"), gates=True),
    Explanation("name-length", _name_length),
    Explanation("missing-workload", _missing_workload, ("1.36",)),
    Explanation("wrong-type", _wrong_type),
    Explanation("wrapped-integer", _wrapped_integer),
    Explanation("refused-null", _refused_null),
    Explanation("blind-replace", _blind_replace, needed=("1.36",)),
    Explanation("keyless-item", _keyless),
    Explanation("empty-in-template", _empty_in_template, ("1.36",)),
    Explanation("deleting-default", _deleting_default),
    Explanation("unowned-default", _unowned_default, ("1.36",)),
    Explanation("schema-text", _schema_text),
)


def explanations(minor: str, *, gates: bool = False) -> list[Explanation]:
    """Return the explanations for servers of a minor, on which the gates of trees are open or not."""
    return [one for one in EXPLAINED if minor in one.minors and not (gates and one.gates)]


def explained(exchange: Exchange, known: Sequence[Explanation] = EXPLAINED) -> tuple[Exchange, list[str]]:
    """Remove the explained differences from an exchange; return the rest and the explanations' names."""
    used = list(_used(exchange, known))
    return (used[-1][1] if used else exchange), [name for name, _ in used]


def _used(exchange: Exchange, known: Sequence[Explanation]) -> Iterator[tuple[str, Exchange]]:
    for explanation in known:
        if exchange.equal:
            return
        mended = explanation.mend(exchange)
        if mended != exchange:
            yield explanation.name, mended
            exchange = mended
