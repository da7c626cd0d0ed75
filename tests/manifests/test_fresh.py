"""Rendered YAML and the Helm chart are what kustomize builds: one source, three ways to apply it.

The chart's templates are filled by Go's text/template, which is what Helm fills them with; Helm itself is not
needed. kubectl is the control plane's.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tools.manifests import chart, render

from podium.cli.controllerfile import read_rules
from podium.cli.webhookoptions import policy_of
from podium.controllers.divergence import Write
from podium.controllers.manager import Rules
from podium.controlplane import golang, programs
from podium.controlplane.releases import NEWEST
from podium.rules.policy import Allowance, Level, Policy

pytestmark = pytest.mark.server

_CHART = render.MANIFESTS / "chart"
_SCHEMA = json.loads((_CHART / "values.schema.json").read_text(encoding="utf-8"))
_TOGGLES = tuple(chart.TOGGLES)
_ALONE = [frozenset[str](), *(frozenset([each]) for each in _TOGGLES), frozenset(_TOGGLES)]
_PAIRS = [frozenset(each) for each in itertools.combinations(_TOGGLES, 2)]


@cache
def _kubectl() -> str:
    return str(programs.find(NEWEST, ["kubectl"], os.environ, sys.stderr)["kubectl"])


def _values(toggles: frozenset[str] = frozenset(), **changes: Any) -> dict[str, Any]:
    """Give the default values with some toggles on, and the namespace, as kustomize has it."""
    values: dict[str, Any] = yaml.safe_load((_CHART / "values.yaml").read_text(encoding="utf-8"))
    for toggle in toggles:
        values[toggle]["enabled"] = True
    values["namespace"]["create"] = True
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = values
        for parent in parents:
            place = place[parent]
        place[last] = value
    jsonschema.validate(values, _SCHEMA)
    return values


def _fill(every: list[dict[str, Any]], namespace: str = "podium-system") -> subprocess.CompletedProcess[str]:
    def say(line: str) -> None:
        sys.stderr.write(line)

    go = golang.find(render.ROOT / "tools" / "controlplane" / f"v{NEWEST.minor}", os.environ, say)
    templates = {each.name: each.read_text(encoding="utf-8") for each in (_CHART / "templates").iterdir()}
    asked = [
        {"templates": templates, "data": {"Values": values, "Release": {"Namespace": namespace}}}
        for values in every
    ]
    return subprocess.run(
        [str(go), "run", str(Path(__file__).with_name("fill.go"))],
        input=json.dumps(asked),
        env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def _filled(every: list[dict[str, Any]]) -> list[dict[tuple[str, str], Any]]:
    """Give the documents of the chart by kind and name, for each of some values."""
    done = _fill(every)
    assert done.returncode == 0, done.stderr
    return [_read(text) for text in json.loads(done.stdout)]


def _read(text: str) -> dict[tuple[str, str], Any]:
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(found) == len(documents)
    return found


def test_what_is_checked_in_is_fresh() -> None:
    """`python -m tools.manifests.render` would change nothing, and nothing else lies there."""
    made = render.files(_kubectl())
    for path, text in made.items():
        assert (render.MANIFESTS / path).read_text(encoding="utf-8") == text, path
    for part in ("rendered", "chart/templates"):
        for file in (render.MANIFESTS / part).iterdir():
            assert f"{part}/{file.name}" in made


def test_the_chart_installs_what_kustomize_builds() -> None:
    """With every toggle alone, every two of them, none and all."""
    choices = [*_ALONE, *_PAIRS]
    filled = _filled([_values(each) for each in choices])
    for toggles, documents in zip(choices, filled, strict=True):
        ordered = [each for each in _TOGGLES if each in toggles]
        assert documents == _read(render.combined(_kubectl(), ordered)), sorted(toggles)


def test_values_go_where_they_belong() -> None:
    """Each of them changes what it says, and only that."""
    on = frozenset({"scheduler", "certManager"})
    plain, changed, everywhere = _filled(
        [
            _values(on),
            _values(
                on,
                image__repository="example.com/podium",
                image__tag="1.2",
                replicas=3,
                certManager__issuer__kind="Issuer",
                certManager__issuer__name="ours",
                scheduler__preemption="enforce",
                scheduler__evictionsPerMinute=7,
                scheduler__reservedNodes="pool=podium",
                namespace__create=False,
            ),
            _values(on, scheduler__preemption="off", scheduler__reservedNodes=""),
        ]
    )
    del plain["Namespace", "podium-system"]
    assert changed.keys() == plain.keys()
    for (kind, _), document in changed.items():
        if kind == "Deployment":
            assert document["spec"]["replicas"] == 3
            assert document["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/podium:1.2"
    issuer = {"group": "cert-manager.io", "kind": "Issuer", "name": "ours"}
    assert changed["Certificate", "podium-webhook"]["spec"]["issuerRef"] == issuer
    assert _scheduler(changed) == {
        **_scheduler(plain),
        "preemption": "enforce",
        "evictionsPerMinute": 7,
        "reservedNodes": "pool=podium",
    }
    # YAML reads `off` as false; the file's reader knows.
    assert _scheduler(everywhere)["preemption"] is False
    assert _scheduler(everywhere)["reservedNodes"] is None


def test_what_a_pod_and_its_process_are_told(tmp_path: Path) -> None:
    """Where pods run, how they pull, what they use; and the rest of each file, which its process reads."""
    secrets, labels = [{"name": "pull"}], {"pool": "system"}
    taints = [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}]
    asks = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    (told,) = _filled(
        [
            _values(
                frozenset({"scheduler"}),
                imagePullSecrets=secrets,
                nodeSelector=labels,
                tolerations=taints,
                controller__resources=asks,
                webhook__configuration={
                    "levels": {"member-priority": "inherit"},
                    "allow": [{"namespaces": ["team-*"], "pods": ["low"]}],
                },
                controller__configuration={"writers": 4, "writeConditions": "always"},
            )
        ]
    )
    for (kind, name), document in told.items():
        if kind == "Deployment":
            pod = document["spec"]["template"]["spec"]
            assert (pod["imagePullSecrets"], pod["nodeSelector"], pod["tolerations"]) == (
                secrets,
                labels,
                taints,
            )
            assert (pod["containers"][0]["resources"] == asks) == (name == "podium-controller")
    policy, controller = tmp_path / "policy.yaml", tmp_path / "controller.yaml"
    for file, name in ((policy, "podium-webhook"), (controller, "podium-controller")):
        file.write_text(told["ConfigMap", name]["data"][file.name], encoding="utf-8")
    allowed = Allowance(namespaces=("team-*",), pods=("low",))
    assert policy_of(str(policy)) == Policy(levels={"member-priority": Level.INHERIT}, allow=(allowed,))
    assert read_rules(str(controller)) == Rules(write=Write.ALWAYS, writers=4)


def _scheduler(documents: dict[tuple[str, str], Any]) -> Any:
    return yaml.safe_load(documents["ConfigMap", "podium-scheduler"]["data"]["scheduler.yaml"])


def test_the_overlay_in_the_docs_builds(tmp_path: Path) -> None:
    """That of docs/install.md, beside a checkout called `podium`: image and issuer are what it says."""
    page = (render.ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (tmp_path / "kustomization.yaml").write_text(page.partition("\n```yaml\n")[2].partition("```")[0])
    shutil.copytree(render.MANIFESTS, tmp_path / "podium" / "manifests")
    built = _read(render.build(_kubectl(), tmp_path))
    assert built["Certificate", "podium-webhook"]["spec"]["issuerRef"]["name"] == "our-issuer"
    (container,) = built["Deployment", "podium-webhook"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/podium:0.1.0"
    for path in re.findall(r"manifests/[a-z./-]*[a-z]", page):
        assert (render.ROOT / path).exists(), path


def test_the_patch_in_the_docs_labels_what_the_operator_looks_for(tmp_path: Path) -> None:
    """That of docs/monitoring.md, in an overlay with its component."""
    page = (render.ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    shutil.copytree(render.MANIFESTS, tmp_path / "manifests")
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["manifests/base"],
        "components": ["manifests/components/self-signed", "manifests/components/monitoring"],
    }
    patches = page.partition("\n```yaml\n")[2].partition("```")[0]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay) + patches)
    built = _read(render.build(_kubectl(), tmp_path))
    labelled = {kind for (kind, _), each in built.items() if "release" in each["metadata"].get("labels", {})}
    assert labelled == {"ServiceMonitor", "PrometheusRule"}


def test_another_namespace_is_refused() -> None:
    """The registration exempts podium-system by its name."""
    done = _fill([_values()], "elsewhere")
    assert done.returncode == 1
    assert "podium is installed into podium-system" in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 0},
        {"replica": 2},
        {"scheduler": {"preemption": False}},
        {"image": {"tag": "a b"}},
        {"imagePullSecrets": ["pull"]},
        {"webhook": {"configuration": {"kind": "AdmissionPolicy"}}},
    ],
    ids=["no replica", "a misspelt key", "an unquoted off", "no tag", "no secret", "a kind of one's own"],
)
def test_the_schema_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, _SCHEMA)
