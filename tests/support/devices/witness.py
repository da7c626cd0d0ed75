"""Upstream's code for devices as a witness: one process for each minor, kept for the session.

A fixture yields a Witness. `ask` sends a question and returns its answer; tools/devices/v1.37/main.go
documents both. The tests that use it are marked `server`, because the programs need Go.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any, Self

import pytest
from tools.devices.program import NAME, WITNESSES

_FIXTURES = {"witness_136": ("1.36",), "witness_137": ("1.37",), "witness": tuple(WITNESSES)}


class Witness:
    """A running program with upstream's code of a minor."""

    def __init__(self, minor: str) -> None:
        self.minor = minor
        program = WITNESSES[minor].programs() / NAME
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question. Raises AssertionError if the question is not valid."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the witness of {self.minor} ended"
        answer: dict[str, Any] = json.loads(line)
        assert "invalid" not in answer, answer
        return answer

    def select(self, expression: str, driver: str, device: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a selector on a device: matches and cost, or compileError or runtimeError."""
        return self.ask({"mode": "cel", "expression": expression, "driver": driver, "device": device})

    def allocate(self, case: dict[str, Any]) -> dict[str, Any]:
        """Return the allocations of a case, with the fields of mode "allocate"."""
        return self.ask({**case, "mode": "allocate"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, which ends with its input."""
        self._process.communicate()


@pytest.fixture(scope="session")
def witness_136() -> Iterator[Witness]:
    """Yield upstream's code of 1.36."""
    with Witness("1.36") as witness:
        yield witness


@pytest.fixture(scope="session")
def witness_137() -> Iterator[Witness]:
    """Yield upstream's code of 1.37."""
    with Witness("1.37") as witness:
        yield witness


@pytest.fixture(scope="session", params=WITNESSES)
def witness(request: pytest.FixtureRequest) -> Witness:
    """Return each minor's code in turn."""
    found: Witness = request.getfixturevalue(f"witness_{request.param.replace('.', '')}")
    return found


def _minors(items: list[pytest.Item]) -> list[str]:
    """Return the minors whose programs the tests need."""
    used = {name for item in items for name in getattr(item, "fixturenames", ())}
    return sorted({minor for name in used & _FIXTURES.keys() for minor in _FIXTURES[name]})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that uses a witness and is not marked: `make unit` would need Go."""
    for item in items:
        if _minors([item]) and item.get_closest_marker("server") is None:
            raise pytest.UsageError(f"{item.nodeid} uses a witness and is not marked `server`")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs that the collected tests need before the first test, outside its timeout."""
    minors = _minors(session.items)
    if session.config.option.collectonly or not minors:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        for minor in minors:
            WITNESSES[minor].programs()
