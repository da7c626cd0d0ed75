"""Being told to stop: once to end in order, twice to end at once."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """`asked` is set by the first SIGTERM or SIGINT, `insisted` by the second."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()

    def ask(self) -> None:
        """Do what a signal does."""
        (self.insisted if self.asked.is_set() else self.asked).set()


@contextmanager
def stopping() -> Iterator[Stop]:
    """Listen to both signals on the running loop, for as long as the context lasts."""
    loop = asyncio.get_running_loop()
    stop = Stop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
