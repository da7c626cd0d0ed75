"""The garbage collector, kept from looking through a whole cluster again and again.

A process holds some ten objects for each pod of its cluster. They are parts of no reference cycle, yet each
full collection visits all of them: at 100,000 pods that stops every thread for more than a second. So what
has survived a full collection is exempt from later ones, and each visits only what is new since the last.

An object of a cycle that is alive at that moment is never freed. There are few of them (a task, an exception
with its frames), and a full collection comes only with every 70,000 new objects.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_OLDEST = 2


@contextmanager
def short_collections() -> Iterator[None]:
    """Exempt what survives a full collection from later ones, until the block ends."""
    gc.callbacks.append(_exempt)
    try:
        yield
    finally:
        gc.callbacks.remove(_exempt)
        gc.unfreeze()


def _exempt(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
