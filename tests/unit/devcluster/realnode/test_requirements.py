"""The refusal of machines that cannot run real nodes: one line that says why and what to do."""

import os
import sys

import pytest
from tools.devcluster.realnode import requirements
from tools.devcluster.realnode.requirements import KernelFeature

from podium.errors import PodiumError


def test_another_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(PodiumError, match=r"real nodes need Linux\. `make cluster` has fake nodes"):
        requirements.check()


def test_another_user_than_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PodiumError, match="real nodes need root"):
        requirements.check()


def test_missing_programs_are_named_with_their_packages() -> None:
    with pytest.raises(PodiumError, match=r"Missing programs: not-there \(some-package\)$"):
        requirements.missing({"sh": "dash", "not-there": "some-package"})


def test_a_refused_feature_is_named_with_the_kernel_s_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "_PROGRAMS", {"sh": "dash"})
    monkeypatch.setattr(requirements, "PROBES", (KernelFeature("magic", "echo refused >&2; exit 1"),))
    with pytest.raises(PodiumError, match=r"real nodes need magic, .*: refused$"):
        requirements.check()
