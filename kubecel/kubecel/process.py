"""Evaluates selectors in a child process with limits of time and memory.

Tenants write selectors, and one call of the interpreter, such as a search in a long text, cannot be
interrupted. In the same process it would hold the interpreter's lock, and neither the lease nor the probes
would run beside it. So a child evaluates selectors. The kernel ends the child at its limits, and the parent
waits without the lock. The next child starts at once. The selector is not evaluated again for a while.

The child starts with the first selector, and ends when its standard input does, so it never outlives the
parent. Windows has neither these limits nor a wait for a pipe: the commands on files evaluate in their own
process there. macOS does not limit the memory.
"""

import atexit
import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import BinaryIO, NamedTuple

import msgspec

from kubecel.devices import DeviceLike, PlainDevice
from kubecel.errors import SelectorCompileError, SelectorRuntimeError, UnansweredSelectorError
from kubecel.selector import Evaluate, Evaluation, Evaluations, evaluate_devices

# The processor time of the child for one batch, and its address space. Kubernetes estimates 0.1 s for the
# most costly evaluation that it permits.
PROCESSOR_SECONDS, MEMORY = 0.5, 2**28
# The longest wait for a batch, also if the child gets no processor, and for the start of a child.
ANSWER_SECONDS, START_SECONDS = 1.0, 10.0
# How long a selector without a result is not evaluated, doubled each time up to the longest.
FIRST_BACKOFF, LONGEST_BACKOFF = 10.0, 600.0
# The most selectors whose backoff is remembered.
MAX_BACKOFFS = 1024
# The most characters of an error: an expression may build a long text and name it as a missing key.
_MAX_ERROR = 2**14
_HEADER = 4
_OUT_OF_MEMORY = 3
# The child imports the same modules as the parent, and no others: no environment, no site.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from kubecel.process import serve_pipes; serve_pipes()"


class _EvaluationRequest(msgspec.Struct, array_like=True, gc=False):
    expression: str
    minor: int
    driver: str
    devices: list[PlainDevice]


class _EvaluationReply(msgspec.Struct, array_like=True, gc=False):
    """The fields of a batch, with errors as texts; `invalid` is the error of the compiler."""

    results: list[tuple[bool, str | None, int, int]] = []
    compiling: int = 0
    invalid: str | None = None


class _SelectorBackoff(NamedTuple):
    until: float
    seconds: float
    reason: str


class _EndedError(Exception):
    """The child sends no reply; the reason is the text."""


class SelectorProcess:
    """The parent's side: one child at a time, and the selectors that it could not evaluate."""

    def __init__(self, program: str = _PROGRAM, clock: Callable[[], float] = time.monotonic) -> None:
        """`program` is the Python code of the child."""
        self._program = program
        self._clock = clock
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._backoffs: OrderedDict[bytes, _SelectorBackoff] = OrderedDict()

    @property
    def pid(self) -> int | None:
        """Return the ID of the child, None before the first selector."""
        return None if self._child is None else self._child.pid

    def evaluate(
        self, expression: str, minor: int, driver: str, devices: Sequence[DeviceLike]
    ) -> Evaluations:
        """Return what `evaluate_devices` does.

        Raises SelectorCompileError, and UnansweredSelectorError at a limit.
        """
        text = expression.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(text, digest_size=16, salt=minor.to_bytes(1)).digest()
        with self._lock:
            backoff = self._backoffs.get(key)
            if backoff is not None and self._clock() < backoff.until:
                raise UnansweredSelectorError(backoff.reason)
            try:
                message = _encoded(expression, minor, driver, devices)
            except UnicodeEncodeError:
                raise UnansweredSelectorError("a text of the selector or of a device is no UTF-8") from None
            began = self._clock()
            try:
                self._await_start()
                body = self._exchange(message, ANSWER_SECONDS)
            except _EndedError as error:
                if self._ready:
                    self._back_off(key, str(error))
                    # The next one starts while the caller does something else.
                    self._start()
                effort = round((self._clock() - began) * 1_000_000)
                raise UnansweredSelectorError(str(error), effort) from None
            except BaseException:
                # Ctrl-C: the reply would be taken for that of the next request.
                self.close()
                raise
            self._backoffs.pop(key, None)
        reply = msgspec.msgpack.decode(body, type=_EvaluationReply)
        if reply.invalid is not None:
            invalid = SelectorCompileError(reply.invalid)
            invalid.effort = reply.compiling
            raise invalid
        return Evaluations([_evaluation(*result) for result in reply.results], reply.compiling)

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                assert stream is not None, "both are pipes"
                with suppress(BrokenPipeError):
                    stream.close()
            atexit.unregister(self.close)

    def _await_start(self) -> None:
        """Return when a child waits for a request. Raises _EndedError if none does in time."""
        if self._child is None or self._child.poll() is not None:
            self._start()
        if not self._ready:
            try:
                self._exchange(b"", START_SECONDS)
            except _EndedError as error:
                raise _EndedError(f"the process for selectors does not start: {error}") from None
            self._ready = True

    def _start(self) -> None:
        """Start a child without waiting for it."""
        self.close()
        self._ready = False
        # In a session of its own, so that the terminal's Ctrl-C is for the parent alone.
        with suppress(OSError):
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-I", "-S", "-c", self._program, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
            atexit.register(self.close)

    def _exchange(self, message: bytes, seconds: float) -> bytes:
        """Send a message unless it is empty, and return the next one. Raises _EndedError, without a child."""
        child = self._child
        if child is None:
            raise _EndedError("the system refuses another process")
        assert child.stdin is not None, "a pipe"
        assert child.stdout is not None, "a pipe"
        unsent = memoryview(len(message).to_bytes(_HEADER) + message if message else b"")
        received = bytearray()
        source, target = child.stdout.fileno(), child.stdin.fileno()
        os.set_blocking(target, False)
        waiting = select.poll()
        waiting.register(source, select.POLLIN)
        if unsent:
            waiting.register(target, select.POLLOUT)
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0:
            for stream, _ in waiting.poll(left * 1000):
                if stream == target:
                    try:
                        unsent = unsent[os.write(target, unsent) :]
                    except BrokenPipeError:
                        unsent = unsent[:0]
                    if not unsent:
                        waiting.unregister(target)
                    continue
                chunk = os.read(source, 2**16)
                if not chunk:
                    raise self._ended(child)
                received += chunk
                if len(received) >= _HEADER + int.from_bytes(received[:_HEADER]):
                    return bytes(received[_HEADER:])
        self.close()
        raise _EndedError(f"no result within {seconds:g} s")

    def _ended(self, child: "subprocess.Popen[bytes]") -> _EndedError:
        """Return why a child that closed its output ended."""
        self.close()
        if child.returncode == -signal.SIGPROF:
            return _EndedError(f"the evaluation takes more than {PROCESSOR_SECONDS:g} s")
        if child.returncode == _OUT_OF_MEMORY:
            return _EndedError(f"the evaluation takes more than {MEMORY >> 20} MiB")
        return _EndedError(f"the process that evaluates it ended with code {child.returncode}")

    def _back_off(self, key: bytes, reason: str) -> None:
        before = self._backoffs.pop(key, None)
        seconds = FIRST_BACKOFF if before is None else min(2 * before.seconds, LONGEST_BACKOFF)
        self._backoffs[key] = _SelectorBackoff(self._clock() + seconds, seconds, reason)
        if len(self._backoffs) > MAX_BACKOFFS:
            self._backoffs.popitem(last=False)


def _encoded(expression: str, minor: int, driver: str, devices: Sequence[DeviceLike]) -> bytes:
    """Return a request, which has only the fields that selectors read. Raises UnicodeEncodeError."""
    read = msgspec.convert(devices, list[PlainDevice], from_attributes=True)
    return msgspec.msgpack.encode(_EvaluationRequest(expression, minor, driver, read))


def _evaluation(selected: bool, error: str | None, cost: int, effort: int) -> Evaluation:
    failure = None if error is None else SelectorRuntimeError(error)
    return Evaluation(selected=selected, error=failure, cost=cost, effort=effort)


def serve_pipes() -> None:
    """Answer requests from the standard input within the limits: the main function of the child."""
    import resource  # noqa: PLC0415 - Windows lacks it, and the parent needs no limits

    # macOS refuses a limit of the address space.
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer, partial(signal.setitimer, signal.ITIMER_PROF))
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    except BrokenPipeError:
        # The parent has ended.
        os._exit(0)


def serve(source: BinaryIO, target: BinaryIO, alarm: Callable[[float], object]) -> None:
    """Answer requests in their order until the source ends; `alarm` ends the process after some seconds."""
    _send(target, b"")
    while header := source.read(_HEADER):
        body = source.read(int.from_bytes(header))
        alarm(PROCESSOR_SECONDS)
        reply = msgspec.msgpack.encode(_reply(msgspec.msgpack.decode(body, type=_EvaluationRequest)))
        alarm(0)
        _send(target, reply)


def _send(target: BinaryIO, body: bytes) -> None:
    target.write(len(body).to_bytes(_HEADER) + body)
    target.flush()


def _reply(request: _EvaluationRequest) -> _EvaluationReply:
    try:
        batch = evaluate_devices(request.expression, request.minor, request.driver, request.devices)
    except SelectorCompileError as error:
        return _EvaluationReply(compiling=error.effort, invalid=_error_text(error))
    results = [
        (item.selected, None if item.error is None else _error_text(item.error), item.cost, item.effort)
        for item in batch.results
    ]
    return _EvaluationReply(results, batch.compiling)


def _error_text(error: Exception) -> str:
    """Return an error as a text of limited length that UTF-8 can represent."""
    return str(error)[:_MAX_ERROR].encode("utf-8", "replace").decode()


# The process that all callers share, and the function that callers use. Tests may replace the function.
SELECTORS = SelectorProcess()
evaluate: Evaluate = evaluate_devices if sys.platform == "win32" else SELECTORS.evaluate
