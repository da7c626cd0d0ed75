"""Planned commands run until the first that fails, and the error names it."""

import pytest
from tools.devcluster.realnode import namespaces

from podium.errors import PodiumError


def test_the_failed_command_is_named_with_its_message() -> None:
    plan = ["true", "ls /there/is/nothing", "exit 9"]
    with pytest.raises(
        PodiumError,
        match=r"^preparing node-1: `ls /there/is/nothing` failed: ls: .*No such file or directory$",
    ):
        namespaces.run([], plan, "preparing node-1")


def test_a_silent_failure_has_its_exit_code() -> None:
    with pytest.raises(PodiumError, match=r"`false` failed: exit code 1"):
        namespaces.run([], ["false"], "x")
