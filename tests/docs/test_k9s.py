"""examples/k9s/plugins.yaml: k9s accepts each plugin, and its command line is one of podium's."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from tests.support.docs.pages import ROOT

from podium.cli.main import command as podium

_PLUGINS: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "examples" / "k9s" / "plugins.yaml").read_text("utf-8")
)["plugins"]
# The required and the optional fields of k9s (internal/config/json/schemas/plugin.json).
_REQUIRED, _OPTIONAL = {"shortCut", "description", "scopes", "command"}, {"args", "background"}
# The values that k9s puts in place of its variables, and its pattern of a variable (internal/view/env.go).
_VALUES = {"$NAMESPACE": "team-a", "$NAME": "train-0", "$CONTEXT": "arn:aws:eks/it's $(false)"}
_VARIABLE = re.compile(r"\$!?[\w-]+")


@pytest.mark.parametrize("name", _PLUGINS)
def test_a_plugin_runs_a_command_of_podium(name: str, tmp_path: Path) -> None:
    """A context with characters of a shell is one argument."""
    plugin = _PLUGINS[name]
    assert set(plugin) >= _REQUIRED
    assert set(plugin) <= _REQUIRED | _OPTIONAL
    for program, script in (("podium", 'printf "%s\\n" "$@"'), ("less", "cat")):
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        (tmp_path / program).chmod(0o755)
    arguments = [_VARIABLE.sub(lambda match: _VALUES[match[0]], argument) for argument in plugin["args"]]
    done = subprocess.run(
        [plugin["command"], *arguments],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    (subcommand, *given) = done.stdout.splitlines()
    assert given[-2:] == ["--context", _VALUES["$CONTEXT"]]
    assert "team-a/train-0" in given
    target = podium.get_command(Context(podium), subcommand)
    assert target is not None
    target.make_context(subcommand, given)


def test_no_view_has_two_plugins_on_one_key() -> None:
    """k9s refuses the second one."""
    keys = [(scope, plugin["shortCut"]) for plugin in _PLUGINS.values() for scope in plugin["scopes"]]
    assert len(keys) == len(set(keys)) == 4
