"""SIGTERM and SIGINT as events: the first asks for an orderly end, the second for an immediate end.

Handlers on the event loop run no code in the middle of other code, unlike Python's own.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """A request to stop: the first SIGTERM or SIGINT sets `asked`, the second sets `insisted`."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()

    def ask(self) -> None:
        """Set the next event, as a signal does."""
        (self.insisted if self.asked.is_set() else self.asked).set()


@contextmanager
def stopping() -> Iterator[Stop]:
    """Yield a Stop that both signals set on the running loop, until the context ends."""
    loop = asyncio.get_running_loop()
    stop = Stop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
