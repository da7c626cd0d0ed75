"""Fixes on the pages: each command is complete and separate, so it can be selected and pasted."""

import re
from html import unescape
from shlex import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.api.findings import ObjectRef
from podium.cli.render.html import fix_markup
from podium.rules.commands import create_class, delete, delete_pods, recreate
from podium.text import visible

DEPLOYMENT = ObjectRef("apps/v1", "Deployment", "a", "web")
GROUP = ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", "a", "ring")

FIXES = {
    "a command alone": (create_class("x", "5"), ["kubectl create priorityclass x --value=5"]),
    "an alternative in words": (
        f"{create_class('x', '5')}; or name another class",
        ["kubectl create priorityclass x --value=5"],
    ),
    "two commands": (
        recreate([DEPLOYMENT, DEPLOYMENT]),
        ["kubectl rollout restart deployment/web -n a"] * 2,
    ),
    "words first": (
        f"create its pods, or delete an orphaned group: {delete(GROUP)}",
        ["kubectl delete podgroup.scheduling.k8s.io ring -n a --wait=false"],
    ),
    "then": (
        f"name a class; then {recreate([DEPLOYMENT])}",
        ["kubectl rollout restart deployment/web -n a"],
    ),
    "another command of ours": (
        f"podium convert --to scheduling.k8s.io/v1beta1; before the upgrade: {delete(GROUP)}",
        [
            "podium convert --to scheduling.k8s.io/v1beta1",
            "kubectl delete podgroup.scheduling.k8s.io ring -n a --wait=false",
        ],
    ),
    "a command that is cut does not run": (delete_pods("a", ["p", "q", "r", "s"]), []),
    "words alone": ("podium audit lists kubectl commands", []),
}


def commands(fix: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'<code class="command">(.*?)</code>', fix_markup(fix))]


@pytest.mark.parametrize("name", FIXES)
def test_commands_are_apart(name: str) -> None:
    fix, expected = FIXES[name]
    assert commands(fix) == expected
    assert unescape(re.sub("<[^>]+>", "", fix_markup(fix))) == fix


@given(name=st.text(st.one_of(st.sampled_from("a;:, '\"<>&\n"), st.characters(codec="utf-8"))))
def test_a_name_never_splits_a_command(name: str) -> None:
    """A command without its namespace would delete another object."""
    command = f"kubectl delete pod {quote(name)} -n team"
    if " ... (" not in command:
        assert commands(f"{command}; recreate it") == [visible(command)]
