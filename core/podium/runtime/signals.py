"""SIGTERM and SIGINT as events: the first asks for an orderly end, the second for an immediate end.

Handlers on the event loop run no code in the middle of other code, unlike Python's own.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

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
    with ExitStack() as stack:
        for number in _SIGNALS:
            stack.callback(_handle(loop, number, stop.ask))
        yield stop


def _handle(
    loop: asyncio.AbstractEventLoop, number: int, callback: Callable[[], None]
) -> Callable[[], object]:
    """Call `callback` on the loop at each signal, and return the function that ends this."""
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:
        # The event loop of Windows. Its own wake-up for Python's handlers runs the callback at once.
        previous = signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))
        return partial(signal.signal, number, previous)
    return partial(loop.remove_signal_handler, number)
