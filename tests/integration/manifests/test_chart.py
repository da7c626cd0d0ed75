"""The Helm chart: equal to the rendered manifests, each value where it belongs, wrong values refused."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click import Context
from tests.support.manifests.charts import (
    as_kustomize,
    needs_helm,
    normalised,
    objects,
    refusal,
    release,
    show,
)
from tests.unit.manifests.test_modes import rendered
from tools.helm.program import CHART, run, template
from tools.release.artifacts import ADDRESS, ROOT

from podium.cli.main import command as podium
from podium.version import VERSION

_SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
_VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
_COMPONENTS = ("scheduler", "certManager", "monitoring", "dashboard", "networkPolicy")
_ALL = {each: {"enabled": True} for each in (*_COMPONENTS, "confinedBinds")}
_PROCESSES = ("webhook", "controller", "scheduler")
_OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}}
# The settings of pods, which a process may have too.
_PODS = sorted(_SCHEMA["properties"].keys() & _SCHEMA["properties"]["webhook"]["properties"].keys())


def test_chart_and_processes_have_one_version() -> None:
    """The chart's appVersion is the tag of the image."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (VERSION, VERSION)


def test_every_kind_is_in_the_metadata_of_artifact_hub() -> None:
    """The storage version of each custom resource."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    listed = yaml.safe_load(about["annotations"]["artifacthub.io/crds"])
    crds = rendered("scheduler", "CustomResourceDefinition")
    stored = {
        (each["metadata"]["name"], each["spec"]["names"]["kind"], version["name"])
        for each in crds
        for version in each["spec"]["versions"]
        if version["storage"]
    }
    assert {(each["name"], each["kind"], each["version"]) for each in listed} == stored


def test_the_chart_has_no_links_and_uses_each_of_its_files() -> None:
    """Flux drops links. Kustomize builds from these files too, so there is no copy."""
    templates = "".join(file.read_text(encoding="utf-8") for file in (CHART / "templates").iterdir())
    for file in filter(Path.is_file, CHART.rglob("*")):
        assert not file.is_symlink(), file
        path = file.relative_to(CHART)
        assert path.parts[0] != "files" or file.name == "Kustomization" or str(path) in templates, path


def test_the_addresses_of_the_chart_begin_with_that_of_the_repository() -> None:
    """A release replaces one address. The icon exists."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    links = yaml.safe_load(about["annotations"]["artifacthub.io/links"])
    assert {about["home"], *about["sources"]} == {ADDRESS}
    for address, kind in ((about["icon"], "raw"), *((link["url"], "blob") for link in links)):
        path = address.removeprefix(f"{ADDRESS}/{kind}/main/")
        assert (ROOT / path).is_file(), address


def _paths(place: Any, path: str = "") -> set[str]:
    """Return the paths of the values in a document; a list or an empty map is a value."""
    if isinstance(place, dict) and place:
        return {found for name, each in place.items() for found in _paths(each, f"{path}.{name}")}
    return {path}


def _documented(schema: dict[str, Any], path: str = "") -> set[str]:
    """Return the paths of the values that the schema permits."""
    while "$ref" in schema:
        schema = _SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    fields = schema.get("properties")
    if not fields:
        return {path}
    return {found for name, each in fields.items() for found in _documented(each, f"{path}.{name}")}


def test_values_and_schema_have_the_same_fields() -> None:
    """Except for the configurations and pod settings, whose fields other pages list."""
    settings = "|".join(_PODS)
    free = re.compile(
        rf"^\.((global|enabled|{settings})|webhook\.service"
        rf"|(webhook|controller|scheduler)\.(configuration|onFailure|resources|{settings}))(\..*)?$"
    )
    allowed = {each for each in _documented(_SCHEMA) if not free.match(each)}
    written = {re.sub(r"^(\.dashboard\.labels)\..*", r"\1", each) for each in _paths(_VALUES)}
    assert {each for each in written if not free.match(each)} == allowed


@needs_helm
@pytest.mark.parametrize(
    "values",
    [{}, _ALL, {"webhook": {"hostNetwork": True}, "extraObjects": [_OBJECT]}],
    ids=["defaults", "every component", "network of the host"],
)
def test_lint_finds_nothing(values: dict[str, Any]) -> None:
    done = run("lint", "--strict", str(CHART), "--values", "-", stdin=yaml.safe_dump(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout
    assert "[ERROR]" not in done.stdout


@needs_helm
@pytest.mark.parametrize("mode", ["admission", "scheduler"])
def test_a_release_is_what_podium_installs(mode: str) -> None:
    """Object by object."""
    values = {"namespace": {"create": True}, "scheduler": {"enabled": mode == "scheduler"}}
    assert as_kustomize(release(values)) == normalised(rendered(mode))


class PodCase(NamedTuple):
    """A setting of pods: the values, and the field of the pod template that they set."""

    name: str
    value: Any
    field: tuple[str, ...]


_AFFINITY: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
_TAINTS = [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}]
_POD_CASES = (
    PodCase("affinity", _AFFINITY, ("spec", "affinity")),
    PodCase("nodeSelector", {"pool": "system"}, ("spec", "nodeSelector")),
    PodCase("tolerations", _TAINTS, ("spec", "tolerations")),
    PodCase("priorityClassName", "platform", ("spec", "priorityClassName")),
    PodCase("podAnnotations", {"example.com/scrape": "true"}, ("metadata", "annotations")),
)


@needs_helm
@pytest.mark.parametrize("case", _POD_CASES, ids=lambda case: case.name)
def test_a_setting_of_all_pods_is_replaced_by_that_of_a_process(case: PodCase) -> None:
    """The global value for two processes, another one for the third."""
    empty: Any = "" if isinstance(case.value, str) else [] if isinstance(case.value, list) else {}
    made = release({"scheduler": {"enabled": True}, case.name: case.value, "webhook": {case.name: empty}})
    for process in _PROCESSES:
        place: Any = made["Deployment", f"podium-{process}"]["spec"]["template"]
        for part in case.field:
            place = place.get(part, {})
        if case.name == "podAnnotations":
            place = {name: text for name, text in place.items() if name in case.value}
        assert place == ({} if process == "webhook" else case.value), process


class FieldCase(NamedTuple):
    """Values, and a field of the webhook's Deployment, by its path, with its expected value."""

    name: str
    values: dict[str, Any]
    field: str
    expected: Any


_CONTAINER = "template.spec.containers.0"
_MOUNT = {"name": "ca", "mountPath": "/etc/ssl/ca", "readOnly": True}
_VOLUME = {"name": "ca", "configMap": {"name": "ca"}}
_FIELD_CASES = (
    FieldCase("log level", {"logLevel": "debug"}, f"{_CONTAINER}.args.-1", "--log-level=debug"),
    FieldCase(
        "log level of a process",
        {"logLevel": "debug", "webhook": {"logLevel": "error"}},
        f"{_CONTAINER}.args.-1",
        "--log-level=error",
    ),
    FieldCase(
        "further arguments after Podium's own",
        {"webhook": {"extraArgs": ["--log-format=text"], "timeoutSeconds": 10}},
        f"{_CONTAINER}.args.-2:",
        ["--timeout-seconds=10", "--log-format=text"],
    ),
    FieldCase(
        "ports",
        {"webhook": {"port": 10250, "metricsPort": 10251}},
        f"{_CONTAINER}.args.-2:",
        ["--port=10250", "--metrics-port=10251"],
    ),
    FieldCase(
        "ports of the container",
        {"webhook": {"port": 10250, "metricsPort": 10251}},
        f"{_CONTAINER}.ports",
        [{"name": "https", "containerPort": 10250}, {"name": "metrics", "containerPort": 10251}],
    ),
    FieldCase("network of the host", {"webhook": {"hostNetwork": True}}, "template.spec.hostNetwork", True),
    FieldCase(
        "names of Services in the network of the host",
        {"webhook": {"hostNetwork": True}},
        "template.spec.dnsPolicy",
        "ClusterFirstWithHostNet",
    ),
    FieldCase(
        "IDs that OpenShift chooses",
        {"podSecurityContext": {"runAsUser": None, "runAsGroup": None}},
        "template.spec.securityContext",
        {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    ),
    FieldCase(
        "security context of a process",
        {"webhook": {"securityContext": {"privileged": False}}},
        f"{_CONTAINER}.securityContext",
        {"privileged": False},
    ),
    FieldCase(
        "probe",
        {"livenessProbe": {"periodSeconds": 20}},
        f"{_CONTAINER}.livenessProbe",
        {
            "httpGet": {"path": "/livez", "port": "metrics"},
            "periodSeconds": 20,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
    ),
    FieldCase("mount", {"volumeMounts": [_MOUNT]}, f"{_CONTAINER}.volumeMounts.-1", _MOUNT),
    FieldCase("volume", {"webhook": {"volumes": [_VOLUME]}}, "template.spec.volumes.-1", _VOLUME),
    FieldCase(
        "strategy",
        {"strategy": {"type": "Recreate", "rollingUpdate": None}},
        "strategy",
        {"type": "Recreate"},
    ),
    FieldCase(
        "registry of the chart that depends on this one",
        {"global": {"imageRegistry": "example.com:5000"}},
        f"{_CONTAINER}.image",
        f"example.com:5000/podium:{VERSION}",
    ),
    FieldCase(
        "pull secrets of both charts",
        {"global": {"imagePullSecrets": [{"name": "a"}]}, "image": {"pullSecrets": [{"name": "b"}]}},
        "template.spec.imagePullSecrets",
        [{"name": "b"}, {"name": "a"}],
    ),
)


@needs_helm
@pytest.mark.parametrize("case", _FIELD_CASES, ids=lambda case: case.name)
def test_a_value_sets_a_field_of_the_deployment(case: FieldCase) -> None:
    place: Any = release(case.values)["Deployment", "podium-webhook"]["spec"]
    for part in case.field.split("."):
        if part.endswith(":"):
            place = place[int(part[:-1]) :]
        else:
            place = place[int(part) if isinstance(place, list) else part]
    assert place == case.expected


@needs_helm
def test_the_commands_accept_the_arguments_of_their_deployments() -> None:
    """With each value that becomes an option."""
    values = {
        **_ALL,
        "logLevel": "debug",
        "webhook": {"port": 1, "metricsPort": 2, "timeoutSeconds": 30, "onFailure": {"pods": "Fail"}},
    }
    made = release(values)
    for process in _PROCESSES:
        (container,) = made["Deployment", f"podium-{process}"]["spec"]["template"]["spec"]["containers"]
        command = podium.get_command(Context(podium), process)
        assert command is not None
        assert container["args"][0] == process
        command.make_context(process, container["args"][1:])


@needs_helm
def test_the_namespace_permits_the_network_of_the_host() -> None:
    made = release({"namespace": {"create": True}, "webhook": {"hostNetwork": True}})
    labels = made["Namespace", "podium-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


@needs_helm
def test_another_name_is_a_label_and_selects_nothing() -> None:
    """The names and the selectors stay, so an upgrade changes no field that is immutable."""
    values = {each: {"enabled": True} for each in _COMPONENTS}
    usual, other = release(values), release({**values, "nameOverride": "gangs"})
    key = "app.kubernetes.io/name"
    for name, document in usual.items():
        if key in document["metadata"]["labels"]:
            assert other[name]["metadata"]["labels"].pop(key) == "gangs"
            assert document["metadata"]["labels"].pop(key) == "podium"
    assert usual == other


@needs_helm
def test_further_objects_are_part_of_the_release() -> None:
    """With the values of the release in their templates."""
    extra = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}-ca", "namespace": "podium-system"},
    }
    assert release({"extraObjects": [extra]})["ConfigMap", "podium-ca"]["metadata"]["namespace"]


@needs_helm
def test_the_alerts_lead_to_the_page_of_the_values() -> None:
    runbooks = "https://wiki.example.com/podium$1"
    made = release({"monitoring": {"enabled": True, "runbooks": runbooks}})
    rules = [rule for group in made["PrometheusRule", "podium"]["spec"]["groups"] for rule in group["rules"]]
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"{runbooks}#{rule['alert'].lower()}"


@needs_helm
def test_the_pod_of_helm_test_is_like_those_of_podium() -> None:
    """Image, security and volumes are those of the processes, and all of its objects are hooks."""
    values = {"volumes": [_VOLUME], "volumeMounts": [_MOUNT], "tolerations": _TAINTS, "image": {"tag": "dev"}}
    made = objects(show("test", values))
    for document in made.values():
        assert document["metadata"]["annotations"]["helm.sh/hook"] == "test"
    pod = made["Pod", "podium-test"]["spec"]
    like = release(values)["Deployment", "podium-webhook"]["spec"]["template"]["spec"]
    for field in ("securityContext", "tolerations", "schedulerName"):
        assert pod[field] == like[field]
    (container,), (own,) = pod["containers"], like["containers"]
    for field in ("image", "securityContext"):
        assert container[field] == own[field]
    assert (pod["volumes"], container["volumeMounts"]) == ([_VOLUME], [_MOUNT])


@needs_helm
def test_every_setting_reaches_its_object() -> None:
    """One release with all of them, beside the components that it needs."""
    account = {"create": True, "name": "reconciler", "annotations": {"iam": "role"}, "labels": {"team": "p"}}
    digest = "sha256:" + "0123456789abcdef" * 4
    made = release(
        {
            "commonLabels": {"team": "platform"},
            "commonAnnotations": {"example.com/owner": "platform"},
            "image": {
                "repository": "example.com:5000/podium",
                "tag": "1.10",
                "digest": digest,
                "pullPolicy": "Always",
                "pullSecrets": [{"name": "registry"}],
            },
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            "podLabels": {"mesh": "off", "app.kubernetes.io/component": "wrong"},
            "controller": {
                "replicas": 3,
                "annotations": {"reload": "true"},
                "labels": {"tier": "system"},
                "serviceAccount": account,
                "podDisruptionBudget": {"maxUnavailable": "50%"},
                "resources": {"requests": {"cpu": "1"}},
                "topologySpreadConstraints": [
                    {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                ],
            },
            "webhook": {
                "replicas": 1,
                "service": {
                    "annotations": {"mesh": "off"},
                    "labels": {"tier": "system"},
                    "ipFamilyPolicy": "PreferDualStack",
                },
                "topologySpreadConstraints": [],
            },
            "namespace": {"create": True, "labels": {"pod-security.kubernetes.io/audit": "restricted"}},
            "certManager": {"enabled": True, "issuer": {"kind": "Issuer", "name": "12"}},
            "monitoring": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
            "crds": {"keep": False},
        }
    )
    for key, each in made.items():
        assert each["metadata"]["labels"]["team"] == (
            "p" if key[0] == "ServiceAccount" and "reconciler" in key else "platform"
        )
        assert each["metadata"]["annotations"]["example.com/owner"] == "platform", key
    controller = made["Deployment", "podium-controller"]
    assert controller["spec"]["replicas"] == 3
    assert controller["metadata"]["annotations"]["reload"] == "true"
    assert controller["metadata"]["labels"]["tier"] == "system"
    template_ = controller["spec"]["template"]
    selector = controller["spec"]["selector"]
    assert template_["metadata"]["labels"] == {"mesh": "off", **selector["matchLabels"]}
    pod = template_["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"example.com:5000/podium:1.10@{digest}"
    assert (container["imagePullPolicy"], pod["imagePullSecrets"]) == ("Always", [{"name": "registry"}])
    assert container["env"][-1] == {"name": "HTTPS_PROXY", "value": "http://proxy"}
    # Helm merges maps, so the memory of the default stays.
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "128Mi"}
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["labelSelector"], spread["topologyKey"]) == (selector, "zone")
    assert pod["serviceAccountName"] == "reconciler"
    budget = made["PodDisruptionBudget", "podium-controller"]["spec"]
    assert (budget["maxUnavailable"], "minAvailable" in budget) == ("50%", False)
    assert made["ServiceAccount", "reconciler"]["metadata"]["annotations"]["iam"] == "role"
    assert ("PodDisruptionBudget", "podium-webhook") not in made
    assert "topologySpreadConstraints" not in made["Deployment", "podium-webhook"]["spec"]["template"]["spec"]
    service = made["Service", "podium-webhook"]
    assert service["metadata"]["annotations"]["mesh"] == "off"
    assert service["metadata"]["labels"]["tier"] == "system"
    assert (service["spec"]["ipFamilyPolicy"], len(service["spec"])) == ("PreferDualStack", 3)
    assert made["Namespace", "podium-system"]["metadata"]["labels"]["pod-security.kubernetes.io/audit"]
    assert made["Certificate", "podium-webhook"]["spec"]["issuerRef"]["name"] == "12"
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert made[kind, "podium"]["metadata"]["labels"]["release"] == "prometheus"
    for (kind, _), each in made.items():
        assert "helm.sh/resource-policy" not in each["metadata"]["annotations"], kind


@needs_helm
def test_another_account_has_the_rights_and_the_limits_of_the_usual_one() -> None:
    """No object names the usual account, and the account is not created."""
    accounts = {each: {"serviceAccount": {"create": False, "name": f"own-{each}"}} for each in _PROCESSES}
    accounts["scheduler"]["enabled"] = True  # type: ignore[assignment]
    usual = release({"scheduler": {"enabled": True}, "confinedBinds": {"enabled": True}})
    other = release({**accounts, "confinedBinds": {"enabled": True}})
    assert usual.keys() - other.keys() == {("ServiceAccount", f"podium-{each}") for each in _PROCESSES}
    assert not other.keys() - usual.keys()
    for key in other:
        expected = json.dumps(usual[key])
        for each in _PROCESSES:
            expected = expected.replace(f":podium-system:podium-{each}", f":podium-system:own-{each}")
            bound = "--confine-binds=podium-system"
            expected = expected.replace(f"{bound}/podium-{each}", f"{bound}/own-{each}")
            subject = {"kind": "ServiceAccount", "name": "", "namespace": "podium-system"}
            before, after = (
                json.dumps({**subject, "name": f"{prefix}-{each}"}) for prefix in ("podium", "own")
            )
            expected = expected.replace(before, after)
            expected = expected.replace(
                f'"serviceAccountName": "podium-{each}"', f'"serviceAccountName": "own-{each}"'
            )
        assert other[key] == json.loads(expected), key
    assert "system:serviceaccount:podium-system:podium-" not in json.dumps(list(other.values()))


@needs_helm
@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ({}, ["system-cluster-critical"]),
        ({"priorityClassName": "platform"}, []),
        (
            {"webhook": {"priorityClassName": "system-node-critical"}},
            ["system-node-critical", "system-cluster-critical"],
        ),
        ({"priorityClassName": None}, []),
    ],
    ids=["default", "no system class", "two system classes", "none"],
)
def test_a_quota_permits_the_system_classes_in_use(values: dict[str, Any], classes: list[str]) -> None:
    made = release(values)
    quota = made.get(("ResourceQuota", "podium-critical-pods"))
    found = quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"] if quota else []
    assert found == classes


@needs_helm
def test_a_changed_configuration_restarts_the_process_that_reads_it_at_its_start() -> None:
    """The webhook and the controller, and not the scheduler, which watches its file."""

    def pods(made: Any) -> dict[str, Any]:
        return {each: made["Deployment", f"podium-{each}"]["spec"]["template"] for each in _PROCESSES}

    before = pods(release({"scheduler": {"enabled": True}}))
    changed = {
        "webhook": {"configuration": {"levels": {"member-priority": "inherit"}}},
        "controller": {"configuration": {"writers": 4}},
        "scheduler": {"enabled": True, "configuration": {"preemption": "enforce"}},
    }
    after = pods(release(changed))
    assert {each for each in _PROCESSES if before[each] != after[each]} == {"webhook", "controller"}


@needs_helm
def test_another_namespace_is_refused() -> None:
    """With the argument that is missing."""
    done = template(namespace="elsewhere")
    assert done.returncode != 0
    assert "Podium runs in the namespace podium-system only" in done.stderr
    assert "Add: --namespace podium-system" in done.stderr


class WrongCase(NamedTuple):
    """Values that are wrong in one place, and parts of Helm's message."""

    values: dict[str, Any]
    place: str
    problem: str


_WRONG = (
    WrongCase({"replica": 2}, "", "additional properties 'replica' not allowed"),
    WrongCase({"webhook": {"replicas": 0}}, "/webhook/replicas", "minimum: got 0, want 1"),
    WrongCase({"webhook": {"replicas": "two"}}, "/webhook/replicas", "got string, want integer"),
    WrongCase({"webhook": {"replicas": None}}, "/webhook", "missing property 'replicas'"),
    WrongCase({"webhook": {"resources": {"request": {}}}}, "/webhook/resources", "'request' not allowed"),
    WrongCase(
        {"webhook": {"resources": {"limits": {"memory": "1 GB"}}}},
        "/webhook/resources/limits/memory",
        "does not match pattern",
    ),
    WrongCase({"webhook": {"configuration": {"kind": "x"}}}, "/webhook/configuration", "'kind' not allowed"),
    WrongCase(
        {"webhook": {"configuration": {"levels": {"a": "on"}}}},
        "/webhook/configuration/levels/a",
        "value must be one of",
    ),
    WrongCase(
        {"webhook": {"configuration": {"allow": [{"pods": ["low"]}]}}},
        "/webhook/configuration/allow/0",
        "missing property 'namespaces'",
    ),
    WrongCase(
        {"controller": {"configuration": {"writers": 257}}},
        "/controller/configuration/writers",
        "maximum: got 257, want 256",
    ),
    WrongCase(
        {"controller": {"serviceAccount": {"create": False}}}, "/controller/serviceAccount/name", "minLength"
    ),
    WrongCase(
        {"controller": {"serviceAccount": {"name": "Not_DNS"}}},
        "/controller/serviceAccount/name",
        "does not match pattern",
    ),
    WrongCase(
        {"controller": {"podDisruptionBudget": {"minAvailable": "half"}}},
        "/controller/podDisruptionBudget/minAvailable",
        "does not match pattern",
    ),
    WrongCase({"scheduler": {"enabled": "yes"}}, "/scheduler/enabled", "got string, want boolean"),
    WrongCase(
        {"scheduler": {"configuration": {"preemption": "sometimes"}}},
        "/scheduler/configuration/preemption",
        "value must be one of",
    ),
    WrongCase(
        {"scheduler": {"configuration": {"preemption": None}}},
        "/scheduler/configuration",
        "missing property 'preemption'",
    ),
    WrongCase(
        {"scheduler": {"configuration": {"evictionsPerMinute": 0}}},
        "/scheduler/configuration/evictionsPerMinute",
        "minimum: got 0, want 1",
    ),
    WrongCase(
        {"scheduler": {"configuration": {"budgets": "loose"}}},
        "/scheduler/configuration/budgets",
        "value must be one of",
    ),
    WrongCase(
        {"scheduler": {"configuration": {"reservedNodes": "a"}}},
        "/scheduler/configuration",
        "'reservedNodes' not allowed",
    ),
    WrongCase({"reservedNodes": "a b: c"}, "/reservedNodes", "does not match pattern"),
    WrongCase(
        {"certManager": {"issuer": {"name": 12}}}, "/certManager/issuer/name", "got number, want string"
    ),
    WrongCase({"networkPolicy": True}, "/networkPolicy", "got boolean, want object"),
    WrongCase({"networkPolicy": {"apiServers": []}}, "/networkPolicy/apiServers", "minItems: got 0, want 1"),
    WrongCase(
        {"networkPolicy": {"apiServers": ["10.0.0.1"]}},
        "/networkPolicy/apiServers/0",
        "does not match pattern",
    ),
    WrongCase({"image": {"tag": "a b"}}, "/image/tag", "does not match pattern"),
    WrongCase({"image": {"repository": 'podium"'}}, "/image/repository", "does not match pattern"),
    WrongCase({"image": {"digest": "sha256:12"}}, "/image/digest", "does not match pattern"),
    WrongCase({"image": {"pullPolicy": "Often"}}, "/image/pullPolicy", "value must be one of"),
    WrongCase({"image": {"pullSecrets": ["pull"]}}, "/image/pullSecrets/0", "got string, want object"),
    WrongCase({"namespace": {"name": "other"}}, "/namespace/name", "value must be 'podium-system'"),
    WrongCase({"nodeSelector": {"pool": 1}}, "/nodeSelector/pool", "got number, want string"),
    WrongCase({"affinity": {"nodeAfinity": {}}}, "/affinity", "'nodeAfinity' not allowed"),
    WrongCase({"tolerations": [{"efect": "NoSchedule"}]}, "/tolerations/0", "'efect' not allowed"),
    WrongCase({"env": [{"name": "POD_NAME", "value": "x"}]}, "/env/0/name", "'not' failed"),
    WrongCase(
        {"topologySpreadConstraints": [{"maxSkew": 1}]}, "/topologySpreadConstraints/0", "missing properties"
    ),
    WrongCase({"podLabels": {"a": "not a label"}}, "/podLabels/a", "does not match pattern"),
    WrongCase({"commonLabels": {"a": True}}, "/commonLabels/a", "got boolean, want string"),
    WrongCase({"global": {"imageRegistri": "x"}}, "/global", "'imageRegistri' not allowed"),
    WrongCase({"logLevel": "trace"}, "/logLevel", "value must be one of"),
    WrongCase({"webhook": {"extraArgs": ["-v"]}}, "/webhook/extraArgs/0", "does not match pattern"),
    WrongCase({"webhook": {"timeoutSeconds": 31}}, "/webhook/timeoutSeconds", "maximum: got 31, want 30"),
    WrongCase({"webhook": {"port": 0}}, "/webhook/port", "minimum: got 0, want 1"),
    WrongCase({"webhook": {"service": {"port": 8443}}}, "/webhook/service", "'port' not allowed"),
    WrongCase({"podSecurityContext": {"runAsuser": 1}}, "/podSecurityContext", "'runAsuser' not allowed"),
    WrongCase({"livenessProbe": {"path": "/"}}, "/livenessProbe", "'path' not allowed"),
    WrongCase({"strategy": {"type": "Recreate"}}, "/strategy/rollingUpdate", "false schema"),
    WrongCase({"volumes": [{"name": "configuration", "emptyDir": {}}]}, "/volumes/0/name", "'not' failed"),
    WrongCase({"volumeMounts": [{"name": "ca"}]}, "/volumeMounts/0", "missing property 'mountPath'"),
    WrongCase({"extraObjects": [{"kind": "ConfigMap"}]}, "/extraObjects/0", "missing properties"),
    WrongCase(
        {"monitoring": {"runbooks": "docs/monitoring.md"}}, "/monitoring/runbooks", "does not match pattern"
    ),
    WrongCase({"nameOverride": "a b"}, "/nameOverride", "does not match pattern"),
    WrongCase({"priorityClassName": 5}, "/priorityClassName", "got number, want"),
)


@needs_helm
@pytest.mark.parametrize("case", _WRONG, ids=lambda case: f"{case.place or '/'} {case.problem}")
def test_the_schema_refuses(case: WrongCase) -> None:
    """Helm names the place and the problem, and no other place."""
    message = refusal(case.values)
    found = re.findall(r"^- at '(.*?)': (.*)$", message, re.MULTILINE)
    assert len(found) == 1, message
    assert found[0][0] == case.place
    assert case.problem in message
