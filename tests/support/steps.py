"""Counts the steps of Python code, so that tests compare amounts of work without a clock."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that a call runs."""
    count, before = 0, sys.gettrace()

    def traced(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
