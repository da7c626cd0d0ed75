"""The refusals of a schema that equal upstream's validation of a field, in other words.

One function holds the list of pairs; any text outside the list is a difference.
"""

import re

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
