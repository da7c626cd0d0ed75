"""Rendered YAML and the Helm chart equal kustomize's output: one source, three ways to apply it.

Go's text/template fills the chart's templates, as in Helm; Helm itself is not needed. kubectl is the control
plane's.
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

from podium.api.groups import RESERVED
from podium.cli.config.configfile import Strict
from podium.cli.config.controllerfile import ControllerModel, read_rules
from podium.cli.config.policyfile import PolicyModel
from podium.cli.config.schedulerfile import SchedulerModel, source
from podium.cli.config.webhookoptions import policy_of
from podium.controllers.divergence import Write
from podium.controllers.manager import Rules
from podium.controlplane import golang, programs
from podium.controlplane.releases import NEWEST
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.schedulerplugin.settings import LiveSettings, PreemptionMode, Settings

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
    """Return the default values with some toggles on, and the namespace, as kustomize has it."""
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
    def echo(line: str) -> None:
        sys.stderr.write(line)

    go = golang.find(render.ROOT / "tools" / "controlplane" / f"v{NEWEST.minor}", os.environ, echo)
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
    """Return the documents of the chart by kind and name, for each of some values."""
    done = _fill(every)
    assert done.returncode == 0, done.stderr
    return [_read(text) for text in json.loads(done.stdout)]


def _read(text: str) -> dict[tuple[str, str], Any]:
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(found) == len(documents)
    return found


def test_the_checked_in_manifests_are_fresh() -> None:
    """`python -m tools.manifests.render` changes no file, and there are no other files."""
    made = render.files(_kubectl())
    for path, text in made.items():
        assert (render.MANIFESTS / path).read_text(encoding="utf-8") == text, path
    for part in ("rendered", "chart/templates"):
        for file in (render.MANIFESTS / part).iterdir():
            assert f"{part}/{file.name}" in made


def test_the_chart_installs_what_kustomize_builds() -> None:
    """Chart and kustomize agree for every toggle, every pair, none and all."""
    choices = [*_ALONE, *_PAIRS]
    filled = _filled([_values(each) for each in choices])
    for toggles, documents in zip(choices, filled, strict=True):
        ordered = [each for each in _TOGGLES if each in toggles]
        assert documents == _read(render.combined(_kubectl(), ordered)), sorted(toggles)


def test_values_are_what_an_overlay_says(tmp_path: Path) -> None:
    """Image, replicas and issuer of the chart equal those of an overlay that changes nothing else."""
    on = frozenset({"scheduler", "certManager"})
    (changed,) = _filled(
        [
            _values(
                on,
                image__repository="example.com:5000/podium",
                image__tag="1.10",
                replicas=3,
                certManager__issuer__kind="Issuer",
                certManager__issuer__name="12",
                namespace__create=False,
            )
        ]
    )
    shutil.copytree(render.MANIFESTS, tmp_path / "manifests")
    issuer = [
        {"op": "replace", "path": f"/spec/issuerRef/{name}", "value": value}
        for name, value in (("kind", "Issuer"), ("name", "12"))
    ]
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["manifests/base"],
        "components": ["manifests/components/scheduler", "manifests/components/cert-manager"],
        "images": [{"name": "podium", "newName": "example.com:5000/podium", "newTag": "1.10"}],
        "replicas": [
            {"name": f"podium-{each}", "count": 3} for each in ("webhook", "controller", "scheduler")
        ],
        "patches": [{"target": {"kind": "Certificate"}, "patch": yaml.safe_dump(issuer)}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    built = _read(render.build(_kubectl(), tmp_path))
    del built["Namespace", "podium-system"]
    assert changed == built


def _on(reserved: str) -> Settings:
    return LiveSettings().engine._replace(reserved=reserved)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, LiveSettings(_on(RESERVED), mode=PreemptionMode.OBSERVE, evictions_a_minute=5)),
        (
            {"preemption": "enforce", "evictionsPerMinute": 1_000_000, "reservedNodes": "pool=podium"},
            LiveSettings(_on("pool=podium"), mode=PreemptionMode.ENFORCE, evictions_a_minute=1_000_000),
        ),
        (
            {"preemption": "off", "reservedNodes": "1", "evictionsPerMinute": None},
            LiveSettings(_on("1"), mode=PreemptionMode.OFF),
        ),
        # The YAML value of an unquoted `off`, in the values as in the file.
        (
            {"preemption": False, "reservedNodes": None, "configuration": {"shadow": True}},
            LiveSettings(mode=PreemptionMode.OFF, evictions_a_minute=5, shadow=True),
        ),
    ],
    ids=["as it is installed", "all changed", "what YAML takes for something else", "off, everywhere, more"],
)
def test_the_scheduler_reads_its_configuration(
    changes: dict[str, Any], want: LiveSettings, tmp_path: Path
) -> None:
    """The process's own reader reads the file; admission gets the same nodes."""
    toggles = frozenset({"scheduler"})
    (filled,) = _filled(
        [_values(toggles, **{f"scheduler__{name}": value for name, value in changes.items()})]
    )
    file = tmp_path / "scheduler.yaml"
    file.write_text(filled["ConfigMap", "podium-scheduler"]["data"][file.name], encoding="utf-8")
    assert source(str(file)).read() == want
    policy = tmp_path / "policy.yaml"
    policy.write_text(filled["ConfigMap", "podium-webhook"]["data"][policy.name], encoding="utf-8")
    assert policy_of(str(policy)).reserved_nodes == bool(want.engine.reserved)


def test_pods_and_processes_get_their_settings(tmp_path: Path) -> None:
    """Placement, pull secrets, resources, and the other fields of each file are set."""
    secrets, labels = [{"name": "pull"}], {"pool": "system"}
    taints = [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}]
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    (filled,) = _filled(
        [
            _values(
                frozenset({"scheduler"}),
                imagePullSecrets=secrets,
                nodeSelector=labels,
                tolerations=taints,
                controller__resources=resources,
                webhook__configuration={
                    "levels": {"member-priority": "inherit", "class-allowed": False},
                    "allow": [{"namespaces": ["team-*"], "pods": ["low"]}],
                },
                controller__configuration={"writers": 4, "writeConditions": "always"},
            )
        ]
    )
    for (kind, name), document in filled.items():
        if kind == "Deployment":
            pod = document["spec"]["template"]["spec"]
            assert (pod["imagePullSecrets"], pod["nodeSelector"], pod["tolerations"]) == (
                secrets,
                labels,
                taints,
            )
            assert (pod["containers"][0]["resources"] == resources) == (name == "podium-controller")
    policy, controller = tmp_path / "policy.yaml", tmp_path / "controller.yaml"
    for file, name in ((policy, "podium-webhook"), (controller, "podium-controller")):
        file.write_text(filled["ConfigMap", name]["data"][file.name], encoding="utf-8")
    allowed = Allowance(namespaces=("team-*",), pods=("low",))
    assert policy_of(str(policy)) == Policy(
        levels={"member-priority": RuleLevel.INHERIT, "class-allowed": RuleLevel.OFF}, allow=(allowed,)
    )
    assert read_rules(str(controller)) == Rules(write=Write.ALWAYS, writers=4)


def test_the_overlay_in_the_docs_builds(tmp_path: Path) -> None:
    """The overlay of docs/install.md, beside a checkout called `podium`: image and issuer are its own."""
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
    """The patch of docs/monitoring.md is in an overlay with its component."""
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
    ("wrong", "place"),
    [
        ({"replicas": 0}, "$.replicas"),
        ({"replicas": "two"}, "$.replicas"),
        ({"replicas": None}, "$.replicas"),
        ({"replica": 2}, "$"),
        ({"scheduler": None}, "$.scheduler"),
        ({"scheduler__preemption": "sometimes"}, "$.scheduler.preemption"),
        ({"scheduler__evictionsPerMinute": 0}, "$.scheduler.evictionsPerMinute"),
        ({"scheduler__reservedNodes": "a b: c"}, "$.scheduler.reservedNodes"),
        ({"scheduler__configuration": {"preemption": "enforce"}}, "$.scheduler.configuration"),
        ({"scheduler__configuration": {"budgets": "loose"}}, "$.scheduler.configuration.budgets"),
        ({"certManager__enabled": "yes"}, "$.certManager.enabled"),
        ({"certManager__issuer__kind": "Vault"}, "$.certManager.issuer.kind"),
        ({"certManager__issuer__name": 12}, "$.certManager.issuer.name"),
        ({"networkPolicy": True}, "$.networkPolicy"),
        ({"image__tag": "a b"}, "$.image.tag"),
        ({"image__tag": None}, "$.image.tag"),
        ({"image__repository": 'podium"'}, "$.image.repository"),
        ({"imagePullSecrets": ["pull"]}, "$.imagePullSecrets[0]"),
        ({"nodeSelector": {"pool": 1}}, "$.nodeSelector.pool"),
        ({"tolerations": [{"efect": "NoSchedule"}]}, "$.tolerations[0]"),
        ({"webhook__resources": {"request": {}}}, "$.webhook.resources"),
        ({"webhook__configuration": {"kind": "AdmissionPolicy"}}, "$.webhook.configuration"),
        ({"webhook__configuration": {"levels": {"a": "on"}}}, "$.webhook.configuration.levels.a"),
        ({"webhook__configuration": {"allow": [{"pods": ["low"]}]}}, "$.webhook.configuration.allow[0]"),
        ({"controller__configuration": {"writers": 257}}, "$.controller.configuration.writers"),
    ],
    ids=str,
)
def test_the_schema_refuses(wrong: dict[str, Any], place: str) -> None:
    """Each case has one wrong place among right values."""
    with pytest.raises(jsonschema.ValidationError) as caught:
        _values(**wrong)
    assert caught.value.json_path == place


@pytest.mark.parametrize(
    ("process", "model"),
    [("webhook", PolicyModel), ("controller", ControllerModel), ("scheduler", SchedulerModel)],
)
def test_the_schema_knows_what_a_file_may_say(process: str, model: type[Strict]) -> None:
    """The schema has each field with the same words, except for fields with a value of their own."""
    about = _SCHEMA["properties"][process]["properties"]
    documented = about["configuration"]["properties"]
    alone = about.keys() & model.model_fields.keys()
    # One value is used by both the scheduler and admission.
    shared = {"reservedNodes"} & model.model_fields.keys() - alone
    assert documented.keys() | alone | shared | {"apiVersion", "kind"} == model.model_fields.keys()
    assert not documented.keys() & alone
    schema = model.model_json_schema()
    for name, field in [*documented.items(), *((each, about[each]) for each in alone)]:
        assert _words(field, _SCHEMA) == _words(schema["properties"][name], schema), name


def _words(about: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """Return the words that may occur below a place of a schema."""
    if "$ref" in about:
        places = schema.get("definitions") or schema["$defs"]
        return _words(places[about["$ref"].rpartition("/")[2]], schema)
    found = {each for each in about.get("enum", ()) if isinstance(each, str)}
    return found.union(*(_words(each, schema) for each in about.values() if isinstance(each, dict)))
