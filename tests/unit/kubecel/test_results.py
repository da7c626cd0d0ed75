"""Results of selectors are asked for in batches, and callers see those of one evaluation for each device."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecel import (
    DeviceLike,
    DeviceResults,
    PlainAttribute,
    PlainDevice,
    SelectorAnswers,
    SelectorCompileError,
    UnansweredSelectorError,
    process,
)
from kubecel.selector import BATCH_EFFORT, Evaluations, evaluate_devices

_DRIVERS = ("a.example.com", "b.example.com")
_EXPRESSIONS = (
    "device.driver == 'a.example.com'",
    "device.attributes[device.driver].index % 3 == 0",
    # It fails on some devices.
    "10 / device.attributes[device.driver].index > 2",
    # A batch ends after one device.
    "lists.range(9000).sum() > 0",
    "device.driver",
)
_OWNED = [
    (_DRIVERS[at % 2], PlainDevice(attributes={"index": PlainAttribute(integer=at % 7)})) for at in range(40)
]


class Asked:
    """Evaluates in this process, and notes the number of the devices of each question."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.fail: Callable[[], None] = lambda: None

    def __call__(
        self, expression: str, minor: int, driver: str, devices: Sequence[DeviceLike]
    ) -> Evaluations:
        self.batches.append(len(devices))
        self.fail()
        return evaluate_devices(expression, minor, driver, devices)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(process, "evaluate", made)
    return made


def outcome(evaluate: Callable[[], object]) -> object:
    """Return a result or the error of the compiler, in a form that can be compared."""
    try:
        return str(evaluate())
    except SelectorCompileError as error:
        return repr(error)


@given(
    st.lists(st.tuples(st.sampled_from(_EXPRESSIONS), st.sampled_from(_OWNED)), max_size=60),
    st.sampled_from([1, 5, 2**18]),
)
def test_each_result_is_that_of_one_evaluation(
    questions: list[tuple[str, tuple[str, PlainDevice]]], most: int
) -> None:
    """In any order, with any number of results that are kept."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "evaluate", evaluate_devices)
        results = DeviceResults(37, _OWNED, most=most)
        for expression, (driver, device) in questions:

            def alone(
                expression: str = expression, driver: str = driver, device: PlainDevice = device
            ) -> object:
                return evaluate_devices(expression, 37, driver, [device]).results[0]

            outcome(alone)
            again = outcome(lambda: results.evaluate(expression, driver, device))  # noqa: B023 - called here
            assert again == outcome(alone)
            assert results.size <= most


def test_few_questions_are_asked_about_many_devices(asked: Asked) -> None:
    devices = [PlainDevice() for _ in range(40_000)]
    results = DeviceResults(37, [(_DRIVERS[0], each) for each in devices])
    assert all(results.evaluate("true", _DRIVERS[0], each).selected for each in devices)
    assert len(asked.batches) < 60
    assert sum(asked.batches) == len(devices), "no device twice"


def test_few_devices_are_asked_about_that_no_caller_needs(asked: Asked) -> None:
    devices = [PlainDevice() for _ in range(40_000)]
    results = DeviceResults(37, [(_DRIVERS[0], each) for each in devices])
    for number, device in enumerate(devices[::100], start=1):
        results.evaluate("true", _DRIVERS[0], device)
        assert sum(asked.batches) <= 8 * number + number * (number + 1)
    one = len(asked.batches)
    results.evaluate(f"lists.range({BATCH_EFFORT}).all(x, x >= 0)", _DRIVERS[0], devices[0])
    assert results.size < sum(asked.batches[:one]) + 5, "a costly selector ends its batch"


def test_an_expression_that_does_not_compile_is_asked_about_once(asked: Asked) -> None:
    results = DeviceResults(37, _OWNED)
    for driver, device in _OWNED[::2]:
        with pytest.raises(SelectorCompileError, match="must evaluate to bool"):
            results.evaluate("device.driver", driver, device)
    assert len(asked.batches) == 1


def test_a_selector_without_a_result_is_asked_about_again(asked: Asked) -> None:
    def fail() -> None:
        raise UnansweredSelectorError("too slow", 500_000)

    asked.fail = fail
    results = DeviceResults(37, _OWNED)
    result = results.evaluate("true", *_OWNED[0])
    assert (result.selected, str(result.error), result.effort) == (False, "too slow", 500_000)
    asked.fail = lambda: None
    assert results.evaluate("true", *_OWNED[0]).selected


def test_an_effort_is_used_up_by_a_selector_without_a_result(asked: Asked) -> None:
    def fail() -> None:
        raise UnansweredSelectorError("too slow", 500_000)

    asked.fail = fail
    answers = SelectorAnswers(37, _OWNED, 1_000_000)
    given = [answers.answer(f"{at} > 0", *_OWNED[0]) for at in range(3)]
    assert list(map(str, given)) == ["too slow", "too slow", "None"]
    assert answers.exhausted
