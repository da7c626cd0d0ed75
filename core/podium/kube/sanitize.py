r"""Make JSON decodable that an API server may send and msgspec refuses: nested too deeply, or not Unicode.

API servers decode up to 10,000 levels (sigs.k8s.io/json, structured-merge-diff), in metadata.managedFields of
any object and wherever a custom resource keeps unknown fields. msgspec stops at Python's recursion limit. No
read names a field at such a depth, so deeper values are dropped. Text that is not Unicode becomes U+FFFD, as
Go's encoder writes it. All steps are linear and run in C, because a tenant controls the text.
"""

import re

# Deeper than any field of any read (a test compares them), and far below Python's recursion limit.
MOST_LEVELS = 64

# A pair of surrogates, or one alone.
_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})"
)
_ESCAPED_BACKSLASH = rb"\\"
# The placeholder for it: JSON text contains no NUL.
_MARK = b"\0\0"


def sanitize(text: bytes) -> bytes:
    """Return the text in valid Unicode, with values nested deeper than MOST_LEVELS replaced by 0."""
    return _flat(_unicode(text))


def _unicode(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    marked = text.replace(_ESCAPED_BACKSLASH, _MARK)
    whole = _SURROGATE.sub(lambda found: found[0] if found[1] else rb"\ufffd", marked)
    return whole.replace(_MARK, _ESCAPED_BACKSLASH)


def _flat(text: bytes) -> bytes:
    import numpy as np  # noqa: PLC0415 - slow to import, and rarely needed

    # Without escapes, every remaining quote begins or ends a string.
    masked = text.replace(_ESCAPED_BACKSLASH, b"..").replace(rb"\"", b"..")
    steps = np.full(256, 2, np.int8)
    steps[list(b'"[{]}')] = 0, 1, 1, -1, -1
    step = steps[np.frombuffer(masked, np.uint8)]
    places = np.flatnonzero(step != 2)  # neither quotes nor brackets
    step = step[places]
    outside = np.cumsum(step == 0) % 2 == 0
    step, places = step[outside], places[outside]
    level = np.cumsum(step, dtype=np.int32)
    begins = places[(step > 0) & (level == MOST_LEVELS + 1)]
    if not len(begins):
        return text
    # At the closing bracket of a value, the level is already that of the enclosing value.
    ends = places[(step < 0) & (level == MOST_LEVELS)]
    turns = np.zeros(len(text) + 1, np.int8)
    turns[begins + 1] = 1
    turns[ends + 1] -= 1
    flat = np.frombuffer(text, np.uint8).copy()
    flat[begins] = ord("0")
    kept: bytes = flat[np.cumsum(turns[:-1], dtype=np.int8) == 0].tobytes()
    return kept
