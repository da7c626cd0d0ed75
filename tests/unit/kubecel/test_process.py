"""A child evaluates selectors: the same results, limits that end it, and nothing left behind.

Faults are real: the child's program calls C functions that do not return, takes memory, or ends.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from tests.support.waiting import until

from kubecel import (
    DeviceLike,
    PlainAttribute,
    PlainCapacity,
    PlainDevice,
    SelectorCompileError,
    UnansweredSelectorError,
    evaluate_devices,
    process,
)
from kubecel.process import FIRST_BACKOFF, LONGEST_BACKOFF, MAX_BACKOFFS, SelectorProcess, serve
from kubecel.selector import Evaluate

_CASES = json.loads(Path(__file__).with_name("upstream.json").read_text())
_DRIVER = "gpu.example.com"
_DEVICES = [
    PlainDevice(
        attributes={"index": PlainAttribute(integer=at), "model": PlainAttribute(string="a" * 60)},
        capacity={"memory": PlainCapacity(value="80Gi")},
    )
    for at in range(3000)
]
_INDEX = f"device.attributes['{_DRIVER}'].index"
# A kubelet's probe times out after this.
_LIVE_SECONDS = 1.0
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")


def faulty(fault: str) -> str:
    """Return the program of a child where an expression "fault" runs code, and others are evaluated."""
    return f"""
import sys; sys.path[:] = sys.argv[1:]
import ctypes, os, signal
from kubecel import process
evaluate = process.evaluate_devices
def evaluate_devices(expression, *rest):
    if expression == "fault":
        {fault}
    return evaluate("true", *rest)
process.evaluate_devices = evaluate_devices
process.serve_pipes()
"""


# No thread of the child runs beside these calls, and no signal handler of Python either.
_SLEEPS = "ctypes.PyDLL(None).sleep(60)"
_COMPUTES = "('a' * 2 * 10**6).rfind('ab' + 'a' * 10**6)"
_ENDS = "os._exit(7)"
_FAULTS = {
    "a call that waits": (_SLEEPS, "no result within 1 s"),
    "a call that computes": (_COMPUTES, "no result within 1 s|takes more than 0.5 s"),
    "a long number": ("10**10**8", "no result within 1 s|takes more than 0.5 s"),
    "an endless loop": ("[0 for _ in iter(int, 1)]", "no result within 1 s|takes more than 0.5 s|256 MiB"),
    "memory": ("b'a' * 2**30", "takes more than 256 MiB"),
    "a signal": ("os.kill(os.getpid(), signal.SIGKILL)", "ended with code -9"),
    "a stop": ("os.kill(os.getpid(), signal.SIGSTOP)", "no result within 1 s"),
    "an exit": (_ENDS, "ended with code 7"),
}


@pytest.fixture(scope="module")
def child() -> Iterator[SelectorProcess]:
    with closing(SelectorProcess()) as made:
        yield made


@contextmanager
def heartbeat() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the longest time in which another thread of this process did not run."""
    stop, gaps = threading.Event(), [0.0]

    def beat() -> None:
        last = time.monotonic()
        while not stop.wait(0.01):
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield lambda: max(gaps)
    finally:
        stop.set()
        thread.join()


def outcome(evaluate: Evaluate, expression: str, minor: int, driver: str, device: DeviceLike) -> object:
    """Return a result in a form that can be compared, or the error of the compiler."""
    try:
        results, _ = evaluate(expression, minor, driver, [device])
    except SelectorCompileError as error:
        return str(error)
    return [(each.selected, each.cost, each.effort, str(each.error)) for each in results]


@pytest.mark.parametrize("minor", [36, 37])
def test_the_results_are_those_of_an_evaluation_in_this_process(child: SelectorProcess, minor: int) -> None:
    for case in _CASES:
        if case["name"] != "expensive":
            arguments = (
                case["expression"],
                minor,
                case["driver"],
                msgspec.convert(case["device"], PlainDevice),
            )
            assert outcome(child.evaluate, *arguments) == outcome(evaluate_devices, *arguments), case["name"]


@pytest.mark.parametrize(("count", "length"), [(1, 10), (3000, 10), (3000, 9000)])
def test_a_message_of_any_length_is_answered(child: SelectorProcess, count: int, length: int) -> None:
    expression = f"{_INDEX} % 2 == 1 //".ljust(length, "x")
    results: list[bool] = []
    while len(results) < count:
        batch = child.evaluate(expression, 37, _DRIVER, _DEVICES[len(results) : count])
        results += [each.selected for each in batch.results]
    assert results == [at % 2 == 1 for at in range(count)]


@dataclass
class Attribute:
    """A value as an API object of a caller has it."""

    integer: int | None = None
    boolean: bool | None = None
    string: str | None = None
    version: str | None = None
    integers: list[int] | None = None
    booleans: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


@dataclass
class Amount:
    """A capacity with a field that no selector reads."""

    value: str | int | float
    policy: object = None


@dataclass
class Owned:
    """A device of a class of the caller."""

    attributes: dict[str, Attribute] | None
    capacity: dict[str, Amount] | None
    allowMultipleAllocations: bool | None = None
    labels: object = None


_OWNED = Owned(
    {
        "i": Attribute(integer=1),
        "b": Attribute(boolean=True),
        "s": Attribute(string="a"),
        "v": Attribute(version="1.2.3"),
        "is": Attribute(integers=[1]),
        "bs": Attribute(booleans=[True]),
        "ss": Attribute(strings=["a"]),
        "vs": Attribute(versions=["1.2.3"]),
    },
    {"memory": Amount("80Gi", object())},
    allowMultipleAllocations=True,
    labels=object(),
)


@pytest.mark.parametrize(
    "expression",
    [
        "$.i == 1",
        "$.b",
        "$.s == 'a'",
        "$.v == semver('1.2.3')",
        "$.is == [1]",
        "$.bs == [true]",
        "$.ss == ['a']",
        "$.vs == [semver('1.2.3')]",
        f"device.capacity['{_DRIVER}'].memory == quantity('80Gi')",
        "device.allowMultipleAllocations",
    ],
)
def test_a_device_of_another_class_crosses_with_all_that_selectors_read(
    child: SelectorProcess, expression: str
) -> None:
    expression = expression.replace("$", f"device.attributes['{_DRIVER}']")
    for evaluate in (child.evaluate, evaluate_devices):
        assert evaluate(expression, 37, _DRIVER, [_OWNED]).results[0].selected


def test_a_costly_selector_ends_a_batch() -> None:
    batch = evaluate_devices("lists.range(9000).sum() > 0", 37, _DRIVER, _DEVICES)
    assert 1 <= len(batch.results) < 10


@pytest.mark.parametrize(("fault", "reason"), _FAULTS.values(), ids=list(_FAULTS))
def test_a_selector_that_does_not_end_stops_no_thread(fault: str, reason: str) -> None:
    with closing(SelectorProcess(faulty(fault))) as child:
        child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
        before = child.pid
        with heartbeat() as longest_gap, pytest.raises(UnansweredSelectorError, match=reason) as ended:
            child.evaluate("fault", 37, _DRIVER, _DEVICES[:1])
        assert longest_gap() < _LIVE_SECONDS
        assert ended.value.effort > 0
        again = child.pid
        with pytest.raises(UnansweredSelectorError, match=reason) as known:
            child.evaluate("fault", 37, _DRIVER, _DEVICES[:1])
        assert known.value.effort == 0
        assert child.evaluate("true", 37, _DRIVER, _DEVICES[:1]).results[0].selected
        assert child.pid == again != before, "the known selector is not evaluated"


def test_a_selector_without_a_result_is_tried_again_after_a_growing_time() -> None:
    now = 0.0
    waits: list[float] = []
    with closing(SelectorProcess(faulty(_ENDS), clock=lambda: now)) as child:
        for _ in range(8):
            with pytest.raises(UnansweredSelectorError):
                child.evaluate("fault", 37, _DRIVER, _DEVICES[:1])
            began, pid = now, child.pid
            while child.pid == pid:
                now += FIRST_BACKOFF / 2
                with pytest.raises(UnansweredSelectorError):
                    child.evaluate("fault", 37, _DRIVER, _DEVICES[:1])
            waits.append(now - began)
    assert waits[0] == FIRST_BACKOFF
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_BACKOFF


def test_few_selectors_without_a_result_are_remembered() -> None:
    child = SelectorProcess()
    for number in range(3 * MAX_BACKOFFS):
        child._back_off(str(number).encode(), "slow")
    assert list(child._backoffs) == [str(at).encode() for at in range(2 * MAX_BACKOFFS, 3 * MAX_BACKOFFS)]


def test_a_child_that_ends_between_two_selectors_is_replaced(child: SelectorProcess) -> None:
    child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
    before = child.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)
    assert child.evaluate("true", 37, _DRIVER, _DEVICES[:1]).results[0].selected
    assert child.pid != before


def test_a_child_that_does_not_start_is_no_fault_of_the_selector() -> None:
    with closing(SelectorProcess("raise SystemExit(5)")) as child:
        with pytest.raises(UnansweredSelectorError, match=r"does not start: .* ended with code 5") as failed:
            child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
        assert failed.value.effort > 0
        assert not child._backoffs


def test_a_system_that_starts_no_process_is_no_fault_of_the_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/absent")
    with closing(SelectorProcess()) as child:
        for _ in range(2):
            with pytest.raises(UnansweredSelectorError, match="the system refuses another process"):
                child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
        monkeypatch.undo()
        assert child.evaluate("true", 37, _DRIVER, _DEVICES[:1]).results[0].selected


def test_an_interrupted_wait_leaves_no_reply_for_the_next_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    with closing(SelectorProcess()) as child:
        child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
        with monkeypatch.context() as patched:
            patched.setattr(os, "read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
        assert not child.evaluate("false", 37, _DRIVER, _DEVICES[:1]).results[0].selected


def test_nothing_starts_before_the_first_selector() -> None:
    assert SelectorProcess().pid is None


def test_threads_get_their_own_results(child: SelectorProcess) -> None:
    results: dict[int, bool] = {}

    def ask(at: int) -> None:
        batch = child.evaluate(f"{_INDEX} == {at}", 37, _DRIVER, [_DEVICES[at]])
        results[at] = batch.results[0].selected

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == dict.fromkeys(range(20), True)


@_LINUX
def test_the_child_has_only_its_pipes_and_leaves_no_zombie() -> None:
    with socket.socket() as listening:
        listening.set_inheritable(True)
        with closing(SelectorProcess()) as child:
            child.evaluate("true", 37, _DRIVER, _DEVICES[:1])
            pid = child.pid
            opened = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    assert {name.partition(":")[0] for name in opened} == {"pipe", "/dev/null"}
    assert not Path(f"/proc/{pid}").exists()


@_LINUX
def test_the_child_ends_with_its_parent() -> None:
    """The parent is killed, as by the kernel when its memory ends, so that it can do nothing itself."""
    program = (
        "from kubecel.process import SELECTORS; SELECTORS.evaluate('true', 37, 'd', []);"
        "print(SELECTORS.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    until(lambda: _ended(pid), "the child's end")


def _ended(pid: int) -> bool:
    """Return whether a process ended; whoever adopted it may not have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_text_that_is_no_utf_8_has_no_result(child: SelectorProcess) -> None:
    device = PlainDevice(attributes={"model": PlainAttribute(string="\ud800")})
    with pytest.raises(UnansweredSelectorError, match="no UTF-8"):
        child.evaluate("true", 37, _DRIVER, [device])


def test_long_errors_are_cut() -> None:
    """The text of a missing key may be as long as a text that an expression builds."""
    expression = "{'a': true}[lists.range(9000).map(i, 'aaaaaaaaaa').join()]"
    sent, target = BytesIO(), BytesIO()
    process._send(sent, process._encoded(expression, 37, _DRIVER, _DEVICES[:1]))
    sent.seek(0)
    alarms: list[float] = []
    serve(sent, target, alarms.append)
    assert alarms == [process.PROCESSOR_SECONDS, 0]
    reply = msgspec.msgpack.decode(target.getvalue()[8:], type=process._EvaluationReply)
    error = reply.results[0][1]
    assert error is not None
    assert "no such key" in error
    assert len(error) == process._MAX_ERROR
