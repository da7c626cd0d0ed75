"""Check that the user may do every step of an install or an uninstall, before the first step.

The API server answers for each right separately. Without this check an operation could stop half way for a
missing right, and be undone only as far as the rights allow. The error lists all missing rights, not only the
first.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from podium import jsontext
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.ops.doctor.facts import Right
from podium.ops.doctor.rights import attributes, words
from podium.ops.install import Key
from podium.text import some

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# Most users may do everything, so one request asks for that before hundreds ask for each right.
_ALL = Right("", "", "*", "*", "", "*")
_AT_ONCE = 8


def rights(keys: Iterable[Key], *verbs: str) -> list[Right]:
    """Return the rights for these verbs on each object, and to `list` objects of its kind."""
    asked = [
        Right("", key.namespace, key.group, key.resource, "" if verb == "list" else key.name, verb)
        for key in keys
        for verb in verbs
    ]
    return list(dict.fromkeys(asked))


async def require_rights(connection: Connection, wanted: Sequence[Right], instead: str) -> None:
    """Raise PodiumError if a right is missing: what is not allowed, and what to do `instead`."""
    if await _may(connection, _ALL):
        return
    room = asyncio.Semaphore(_AT_ONCE)

    async def ask(right: Right) -> bool:
        async with room:
            return await _may(connection, right)

    answers = await asyncio.gather(*map(ask, wanted))
    lacking = [each for each, allowed in zip(wanted, answers, strict=True) if not allowed]
    if lacking:
        raise PodiumError(f"nothing was written: missing permission to {some(_together(lacking))}. {instead}")


async def _may(connection: Connection, right: Right) -> bool:
    """Return whether the API server grants a right.

    If the review itself is not available, the result is True and the write decides.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes(right)},
    }
    try:
        answer = await connection.send("POST", _REVIEWS, review)
    except RefusedError as refused:
        if refused.code in (403, 404):
            return True
        raise
    return bool(jsontext.parse(answer, dict[str, Any])["status"]["allowed"])


def _together(lacking: Iterable[Right]) -> list[str]:
    """Return the missing rights in words, one text per resource: `get/list roles in x`."""
    verbs: dict[Right, list[str]] = defaultdict(list)
    for right in lacking:
        of = verbs[right._replace(name="", verb="")]
        if right.verb not in of:
            of.append(right.verb)
    return [words(right._replace(verb="/".join(of))) for right, of in verbs.items()]
