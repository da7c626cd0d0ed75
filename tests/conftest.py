"""Fixtures for every test; each module of tests/support/ holds those of one capability."""

import gc
import os
import sys

import pytest
from hypothesis import settings

# The width without a terminal, for every runner: xdist tells its workers 80.
os.environ["COLUMNS"] = "100"

# If the environment forbids bytecode, as many images do, every worker and each of hundreds of processes of
# Podium compiles its modules again. That takes 23 s of processor time instead of 11 to collect, 1.9 instead
# of 1.3 to start a scheduler.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Until the collection ends (below), which makes no garbage worth a search of all of its objects.
gc.disable()

# An API server's start takes a fifth less processor time, and 150 MiB more.
os.environ.setdefault("GOGC", "400")

pytest_plugins = [
    "tests.support.calling",
    "tests.support.browser",
    "tests.support.devices.witness",
    "tests.support.folders",
    "tests.support.servers",
    "tests.support.workers",
]

# A deadline judges the machine, not the code; `make soak` runs many more examples.
settings.register_profile("default", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let PODIUM_SEED repeat the examples of Hypothesis too, unless its own option does."""
    config.option.hypothesis_seed = config.option.hypothesis_seed or os.environ.get("PODIUM_SEED")


def pytest_collection_finish() -> None:
    """Exempt all that the collection made from garbage collection, and visit old objects less often.

    A full collection visited the millions of objects of 9,600 tests, which took half a second each time.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 100)
