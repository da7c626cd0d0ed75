"""Whether whoever runs an install or an uninstall may do all of it, asked before anything is done.

The API server says it of each right by itself. So nothing is begun that would stop half way for want of one,
and be undone as far as that is allowed; and the reader is told of all that is missing, not of the first.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.ops.doctor.facts import Right
from podium.ops.doctor.rights import attributes, words
from podium.ops.install import Key
from podium.wording import some

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# Who may do everything, as nearly all who install, is asked about in one request instead of hundreds.
_ALL = Right("", "", "*", "*", "", "*")
_AT_ONCE = 8


class _Status(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Status


def rights(keys: Iterable[Key], *verbs: str) -> list[Right]:
    """Give the rights to do something with each object, and to `list` those of its kind."""
    asked = [
        Right("", key.namespace, key.group, key.resource, "" if verb == "list" else key.name, verb)
        for key in keys
        for verb in verbs
    ]
    return list(dict.fromkeys(asked))


async def check(connection: Connection, wanted: Sequence[Right], instead: str) -> None:
    """Raise PodiumError where a right is missing: what may not be done, and what to do `instead`."""
    if await _may(connection, _ALL):
        return
    room = asyncio.Semaphore(_AT_ONCE)

    async def ask(right: Right) -> bool:
        async with room:
            return await _may(connection, right)

    answers = await asyncio.gather(*map(ask, wanted))
    lacking = [each for each, allowed in zip(wanted, answers, strict=True) if not allowed]
    if lacking:
        raise PodiumError(f"nothing was written: you may not {some(_together(lacking))}; {instead}")


async def _may(connection: Connection, right: Right) -> bool:
    """Ask for a right; where nobody answers that, the write itself will be answered."""
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
    return msgspec.json.decode(answer, type=_Review).status.allowed


def _together(lacking: Iterable[Right]) -> list[str]:
    """Say what may not be done, a resource at a time and without names of objects: `get/list roles in x`."""
    verbs: dict[Right, list[str]] = defaultdict(list)
    for right in lacking:
        of = verbs[right._replace(name="", verb="")]
        if right.verb not in of:
            of.append(right.verb)
    return [words(right._replace(verb="/".join(of))) for right, of in verbs.items()]
