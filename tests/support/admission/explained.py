"""The closed list of known differences from a real server, each written in docs/differences.md.

Each names the compared part and decides whether two answers differ in that way and no other. A test requires
that the recordings contain each difference.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.admission.recording import Exchange, Op

from podium.rules.admission import GENERATED_SUFFIX

# The suffix a server appends to generateName; it cuts the start so that the name fits in a label.
_GENERATED = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_GENERATED_PREFIX_LENGTH = 58


class Explanation(NamedTuple):
    """A named difference: the heading in docs/differences.md that gives its reason."""

    name: str
    what: str  # which part of the answer: message, stored
    applies: Callable[[Exchange, Any, Any], bool]  # the exchange, the server's part and ours


def _time_text(exchange: Exchange, server: Any, ours: Any) -> bool:
    """Both refuse an invalid time; the place where Go's parser failed is left out."""
    return exchange.code == 400 and "parsing time" in ours and server.startswith(f"{ours}: ")


# After the sentence comes the server's unified diff of the pod spec as Go prints it, or Podium's words. A
# list may end with a bracket.
_CHANGES = re.compile(r"(pod updates may not change fields other than [^\n]*)\n.*?(\]?)\Z", re.DOTALL)


def _pod_spec_diff(_exchange: Exchange, server: Any, ours: Any) -> bool:
    """The server ends the refusal of an update with its diff of the pod spec."""
    return "\n@@ -" in server and _CHANGES.sub(r"\1\2", server) == _CHANGES.sub(r"\1\2", ours)


def _generated_in_text(exchange: Exchange, server: Any, ours: Any) -> bool:
    """The server generates the rest of the name before it validates."""
    prefix = _prefix(exchange)
    if prefix is None:
        return False
    kept = prefix[:_GENERATED_PREFIX_LENGTH]
    made = f'"{re.escape(kept)}{_GENERATED}"'
    return bool(re.search(made, server)) and re.sub(made, f'"{kept}{GENERATED_SUFFIX}"', server) == ours


def _generated_in_object(exchange: Exchange, server: Any, ours: Any) -> bool:
    """The server stores a generated name; the rules are pure and generate none."""
    prefix = _prefix(exchange)
    if prefix is None or server is None or ours is None:
        return False
    metadata = {key: value for key, value in server["metadata"].items() if key != "name"}
    return bool({**server, "metadata": metadata} == ours)


def _prefix(exchange: Exchange) -> str | None:
    metadata = exchange.object["metadata"]
    if exchange.op is not Op.CREATE or metadata.get("name"):
        return None
    prefix: str | None = metadata.get("generateName")
    return prefix


EXPLAINED = (
    Explanation("time-text", "message", _time_text),
    Explanation("pod-spec-diff", "message", _pod_spec_diff),
    Explanation("generated-name-in-text", "message", _generated_in_text),
    Explanation("generated-name-stored", "stored", _generated_in_object),
)


def explanation(exchange: Exchange, what: str, server: Any, ours: Any) -> str | None:
    """Return the name of the explanation of one difference, None if there is none."""
    for candidate in EXPLAINED:
        if candidate.what == what and candidate.applies(exchange, server, ours):
            return candidate.name
    return None
