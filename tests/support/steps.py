"""Counts the steps of Python code, so that tests compare amounts of work without a clock."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Return the number of lines that a call runs; most loops within one line count each time round."""
    count, before = 0, sys.gettrace()

    def traced(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    # A collection would call finalizers and callbacks, such as those of Hypothesis.
    collects = gc.isenabled()
    gc.disable()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
