"""Progress on a terminal: one line on stderr that says what a command does, and how much of it is done."""

import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from podium.api.schedulable import Schedulable
from podium.stderr import overwrite, say
from podium.text import count

if TYPE_CHECKING:
    from podium.cluster.reader import ClusterReader
    from podium.kube.listing import Progress
    from podium.planner.engine import MakeEngine
    from podium.planner.preemption.deciding import DomainRoom
    from podium.planner.preemption.decision import Decision
    from podium.planner.preemption.outcome import Plan
    from podium.planner.settings import Settings

T = TypeVar("T")

# A shorter wait needs no progress.
_SILENT_SECONDS = 2.0
_INTERVAL_SECONDS = 0.5


class Work:
    """A part of a command that may take long: its name, and the units done so far, of `total` if known.

    The `note` follows, such as the progress of one unit.
    """

    def __init__(self, words: str, total: int = 0) -> None:
        self.begin(words, total)

    def begin(self, words: str, total: int = 0) -> None:
        """Start a part of the work, of which nothing is done."""
        self.words = words
        self.done = 0
        self.total = total
        self.note = ""

    def __str__(self) -> str:
        """Return what is done and what is left."""
        of_total = f" of {self.total:,}" if self.total else ""
        number = f": {self.done:,}{of_total}" if self.done or self.total else ""
        return f"{self.words}{number}{self.note}"

    def track(self, units: Iterable[T]) -> Iterator[T]:
        """Yield units, each of which is then done."""
        for unit in units:
            yield unit
            self.done += 1

    def track_all(self, units: Sequence[T]) -> Iterator[T]:
        """Yield units as `track` does; their number is the total."""
        self.total = len(units)
        return self.track(units)


@contextmanager
def working(words: str, total: int = 0) -> Iterator[Work]:
    """Show on a terminal what the block does, from its third second to its end, with the seconds so far."""
    work = Work(words, total)
    if not sys.stderr.isatty():
        yield work
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(work, ended), daemon=True)
    thread.start()
    try:
        yield work
    finally:
        ended.set()
        thread.join()
        overwrite(sys.stderr, "")


def _show(work: Work, ended: threading.Event) -> None:
    began = time.monotonic()
    pause = _SILENT_SECONDS
    while not ended.wait(pause):
        overwrite(sys.stderr, f"{work}, {time.monotonic() - began:.0f} s")
        pause = _INTERVAL_SECONDS


def counting_engine(work: Work, waiting: int = 0) -> "MakeEngine":
    """Return engines that count the pods that they take in, then the plans of all for `waiting` targets.

    Of one plan they count the steps of the search, whose total is unknown, and the topology domains compared.
    """
    from podium.planner.deadline import Deadline  # noqa: PLC0415 - `--help` does not need numpy
    from podium.planner.engine import Engine  # noqa: PLC0415 - as above

    planned = 0

    class Steps(Deadline):
        """A deadline that never passes, and counts how often a search looks at it."""

        def __init__(self) -> None:
            super().__init__(lambda: 0.0, math.inf)
            self._done = 0

        def enforce(self) -> None:
            self._done += 1
            work.note = f", search step {self._done:,}"

    class CountingEngine(Engine):
        def __init__(self, view: "ClusterReader", settings: "Settings", minor: int) -> None:
            self._complete = False
            work.begin("preparing the plan, pods", len(view.pods))
            super().__init__(view, settings, minor)
            self._complete = True
            self._begin()

        def _begin(self) -> None:
            work.begin(f"planning on {count(len(self.view.nodes), 'node')}", waiting)
            work.done = planned

        def apply(self, before: object, after: object) -> None:
            super().apply(before, after)
            work.done += not self._complete and isinstance(after, Schedulable)

        def decide(self, *args: Any, **kwargs: Any) -> "Decision":
            return super().decide(*args, **{**kwargs, "deadline": Steps()})

        def domains(self, *args: Any) -> "list[DomainRoom]":
            rooms = super().domains(*args)
            self._compared, self._rooms = 0, min(len(rooms), self._most)
            return rooms

        def decide_in(self, *args: Any) -> "Decision":
            self._compared += 1
            work.note = f", topology domain {self._compared:,} of {self._rooms:,}"
            return super().decide_in(*args)

        def explain(self, *args: Any) -> "Plan":
            work.note = ", explaining the decision"
            return super().explain(*args)

        def plan(self, *args: Any) -> "Plan":
            nonlocal planned
            self._most = args[3] if len(args) > 3 else 0
            made = super().plan(*args)
            planned += 1
            self._begin()
            return made

        def plan_alike(self, *args: Any, **kwargs: Any) -> "tuple[Plan, int]":
            nonlocal planned
            made, pods = super().plan_alike(*args, **kwargs)
            planned += pods
            self._begin()
            return made, pods

    return CountingEngine


def write_line(line: str) -> None:
    """Write a message on its own line, also while progress is shown."""
    if sys.stderr.isatty():
        overwrite(sys.stderr, "")
    say(f"podium: {line}")


class TerminalProgress:
    """Reports a reading on stderr; what is not a message is shown only on a terminal."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()

    def _show(self, text: str) -> None:
        if self._shows:
            overwrite(sys.stderr, text)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Show the progress of a block that reads a cluster, from its first request on."""
        self._show("reading the resources that the server has")
        try:
            yield
        finally:
            self.clear()

    def progress(self, progress: "Progress") -> None:
        """Show the number of objects of a kind."""
        total = f" of about {progress.read + progress.remaining:,}" if progress.remaining else ""
        self._show(f"reading {progress.served.resource}: {progress.read:,}{total}")

    def message(self, line: str) -> None:
        """Write another message on its own line."""
        write_line(line)

    def clear(self) -> None:
        """Remove the displayed text."""
        self._show("")
