"""Keep the garbage collector from visiting the objects of a whole cluster again and again.

A process keeps about ten objects for each pod of its cluster. They are in no reference cycle, but each full
collection visits all of them: at 100,000 pods it stops every thread for more than a second. So the survivors
of a full collection are exempt from later ones, and each collection visits only newer objects.

Objects in a cycle that are alive at that moment are never freed. They are few (a task, an exception with its
frames), and a full collection runs only after every 70,000 new objects.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_OLDEST = 2


@contextmanager
def short_collections() -> Iterator[None]:
    """Exempt the survivors of a full collection from later ones until the block ends."""
    gc.callbacks.append(_exempt)
    try:
        yield
    finally:
        gc.callbacks.remove(_exempt)
        gc.unfreeze()


def _exempt(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
