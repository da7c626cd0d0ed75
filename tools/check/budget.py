"""A pytest plugin that ends the run at PODIUM_CHECK_UNTIL, a time of the steady clock, without a failure."""

import os
import time

import pytest


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the session after this test if the time is over."""
    if time.monotonic() > float(os.environ["PODIUM_CHECK_UNTIL"]):
        item.session.shouldstop = "the time budget of make check is over; make unit runs all tests"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Succeed unless a test failed."""
    if exitstatus == pytest.ExitCode.INTERRUPTED and session.shouldstop and not session.testsfailed:
        session.exitstatus = pytest.ExitCode.OK
