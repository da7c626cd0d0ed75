"""Keeps the pauses of the garbage collector short in a process that holds a whole cluster.

Such a process keeps about ten objects for each pod of its cluster. They are in no reference cycle, but each
full collection visits all of them: at 100,000 pods it stops every thread for more than a second. A collection
runs wherever an object is allocated, so the observers of a change may have to wait for it. So the survivors
of a full collection are exempt from later ones, and full collections run often: each visits only the few
objects that are new.

Objects in a cycle that are alive at that moment are never freed. They are few: a task, or an exception with
its frames.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_OLDEST = 2
# A full collection comes after so many of the next younger generation, thus after about 16,000 new objects.
# Python's default is 10, thus 85,000 objects.
_YOUNGER = 1


@contextmanager
def short_collections() -> Iterator[None]:
    """Exempt present objects, and survivors of a full collection, from later ones until the block ends."""
    young, younger, oldest = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, younger, _YOUNGER)
    gc.callbacks.append(_exempt)
    try:
        yield
    finally:
        gc.callbacks.remove(_exempt)
        gc.set_threshold(young, younger, oldest)
        gc.unfreeze()


def _exempt(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
