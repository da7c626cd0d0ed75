"""The generated webhook configurations, without a server: what policies and options make of them."""

import re
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tools.manifests import webhooks as written

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.cli.commands.manifests import command
from podium.crds import definitions
from podium.documents.files import folder
from podium.documents.yamldoc import load_all
from podium.kube.deployment import DeploymentState, state_of
from podium.rules.podiumrules import OWN_RULES
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.webhooks import cel
from podium.webhooks.policies import defaults
from podium.webhooks.registration import CONVERT, Endpoint, Options, Stage, configurations, stage

URL = Endpoint(url="https://127.0.0.1:9443")
OFF = {rule.cause.rule.id: RuleLevel.OFF for rule in OWN_RULES}
INHERIT = {"member-priority": RuleLevel.INHERIT}
GROUPS, PODS, NATIVE = "groups.podium.dev", "pods.podium.dev", "native-groups.podium.dev"
GANGS, SCHEDULED = "gangs.podium.dev", "scheduled-gangs.podium.dev"


def registered(
    policy: Policy | None = None, options: Options | None = None, endpoint: Endpoint = URL
) -> list[dict[str, Any]]:
    return configurations(policy or Policy(), endpoint, options or Options(), b"PEM")


def webhooks(configuration: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in configuration["webhooks"]}


def sent(webhook: dict[str, Any]) -> set[str]:
    """Return the requests that a webhook receives: `CREATE pods`."""
    return {
        f"{operation} {resource}"
        for rule in webhook["rules"]
        for operation in rule["operations"]
        for resource in rule["resources"]
    }


def test_the_manifests_are_fresh() -> None:
    """`python -m tools.manifests.webhooks manifests` changes nothing."""
    root = folder("manifests")
    checked_in = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for part in ("crds", "chart/files/webhooks", "policies", "chart/files/policies")
        for path in (root / part).rglob("*.yaml")
    }
    assert checked_in == written.render()


def test_the_command_writes_the_manifests(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["manifests", str(tmp_path)])
    written.main()
    for path, text in written.render().items():
        assert (tmp_path / path).read_text(encoding="utf-8") == text


def printed(*arguments: str) -> list[Any]:
    """Return the documents that `podium manifests` prints."""
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return [*load_all(result.output.encode())]


@pytest.mark.parametrize(("what", "path"), written.FILES.items())
def test_the_command_prints_what_is_checked_in(what: str, path: str) -> None:
    assert printed(what) == [*load_all((folder("manifests") / path).read_bytes())]


def test_the_command_heeds_a_policy(tmp_path: Any) -> None:
    """Levels, failure policies and the Service are those of the command line."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "{apiVersion: config.podium.dev/v1, kind: AdmissionPolicy, levels: {member-priority: inherit}}"
    )
    arguments = ("--config", str(policy), "--service", "ns/svc")
    assert printed("webhooks", *arguments) == printed("webhooks")
    clients = [each["spec"]["conversion"].get("webhook") for each in printed("crds", *arguments)]
    services = [each["clientConfig"]["service"] for each in clients if each]
    assert {(each["namespace"], each["name"]) for each in services} == {("ns", "svc")}


def test_the_manifests_register_nothing() -> None:
    """The webhook fills the configurations; applying the manifests again keeps what it wrote."""
    assert [set(each) for each in printed("webhooks")] == [{"apiVersion", "kind", "metadata"}] * 2
    conversions = [each["spec"]["conversion"] for each in printed("crds")]
    clients = [each["webhook"]["clientConfig"] for each in conversions if each["strategy"] == "Webhook"]
    service = {"namespace": "podium-system", "name": "podium-webhook", "path": CONVERT, "port": 443}
    assert clients == [{"service": service}] * 2


ALL_GROUPS = ("podgroups", "compositepodgroups")


def test_with_the_usual_levels() -> None:
    """Pods are mutated for gangs and reserved nodes, and validated if a rule is on."""
    mutating, validating = (webhooks(each) for each in registered())
    assert {name: sent(each) for name, each in mutating.items()} == {
        GROUPS: {f"{how} {what}" for how in ("CREATE", "UPDATE") for what in ALL_GROUPS}
        | {"UPDATE workloads"},
        GANGS: {"CREATE pods"},
        SCHEDULED: {"CREATE pods"},
        PODS: {"CREATE pods"},
    }
    assert {name: sent(each) for name, each in validating.items()} == {
        GROUPS: {f"{how} {what}" for how in ("CREATE", "UPDATE") for what in (*ALL_GROUPS, "workloads")},
        PODS: {"CREATE pods", "UPDATE pods", "UPDATE pods/status"},
        NATIVE: {"CREATE podgroups", "UPDATE podgroups", "CREATE workloads"},
    }


def test_a_rule_that_is_off_sends_nothing() -> None:
    """With all rules off, the API server's rules on Podium's kinds are left, and gangs on request."""
    mutating, validating = registered(Policy(levels=OFF, reserved_nodes=False))
    assert list(webhooks(mutating)) == [GROUPS, GANGS, SCHEDULED]
    assert list(webhooks(validating)) == [GROUPS]
    for rule in ("group-label-immutable", "member-priority", "membership-conflict"):
        (_, validating) = registered(Policy(levels=OFF | {rule: RuleLevel.WARN}))
        wanted = {"UPDATE pods", "UPDATE pods/status"} if "label" in rule else {"CREATE pods"}
        assert {name: sent(each) for name, each in webhooks(validating).items() if name != GROUPS} == {
            PODS: wanted
        }
    (_, validating) = registered(Policy(levels=OFF, native={"system-class-on-group": RuleLevel.WARN}))
    assert sent(webhooks(validating)[NATIVE]) == {"CREATE workloads"}


@pytest.mark.parametrize(
    ("policy", "member", "intolerant"),
    [
        (Policy(levels=INHERIT, reserved_nodes=False), True, False),
        (Policy(), False, True),
        (Policy(levels=INHERIT), True, True),
    ],
    ids=["members", "reserved nodes", "both"],
)
def test_pods_are_mutated_to_inherit_and_to_tolerate(
    policy: Policy, *, member: bool, intolerant: bool
) -> None:
    """Each webhook gets the pods that it concerns; neither gets a mirror of a static pod."""
    mutating, _ = (webhooks(each) for each in registered(policy))
    _, concern, _ = mutating[PODS]["matchConditions"]
    assert (f"({cel.MEMBER})" in concern["expression"]) == member
    assert (f"({cel.INTOLERANT})" in concern["expression"]) == intolerant
    assert sent(mutating[PODS]) == {"CREATE pods"}
    names = [condition["name"] for condition in mutating[PODS]["matchConditions"]]
    assert names == ["not-being-deleted", "a-rule-may-object", "not-a-mirror-pod"]
    assert mutating[PODS]["reinvocationPolicy"] == "IfNeeded"
    off = Policy(podium=INHERIT, reserved_nodes=False)
    assert PODS not in webhooks(registered(off)[0])


def test_gangs_are_asked_for_by_pods_in_namespaces_that_let_them() -> None:
    """A pod meets one webhook or the other, never both, and before pods, which then belong to a group."""
    options = Options(failure={"gangs": "Fail"}, exempt=("kube-system",))
    mutating, _ = registered(Policy(levels=INHERIT), options)
    assert [each["name"] for each in mutating["webhooks"]] == [GROUPS, GANGS, SCHEDULED, PODS]
    found = webhooks(mutating)
    for name, path, operator in ((GANGS, "/gang", "NotIn"), (SCHEDULED, "/scheduled-gang", "In")):
        webhook = found[name]
        assert webhook["clientConfig"]["url"] == f"https://127.0.0.1:9443{path}"
        assert webhook["namespaceSelector"]["matchExpressions"] == [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
            {"key": "scheduling.podium.dev/auto-groups", "operator": "In", "values": ["true"]},
            {"key": "scheduling.podium.dev/scheduler", "operator": operator, "values": ["podium-scheduler"]},
        ]
        names = [condition["name"] for condition in webhook["matchConditions"]]
        assert names == ["not-being-deleted", "asks-for-a-gang", "not-a-mirror-pod"]
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["reinvocationPolicy"] == "IfNeeded"
    assert found[PODS]["failurePolicy"] == "Ignore"


def test_classes_are_looked_at_where_they_are_restricted() -> None:
    """An allowance for groups does not send pods without one, nor the reverse."""
    only = {**OFF, "class-allowed": RuleLevel.DENY}
    for pods, groups, wanted in ((("a",), None, {PODS}), (None, ("a",), {NATIVE}), (None, None, set())):
        allow = (Allowance(namespaces=("*",), pods=pods, groups=groups),)
        (_, validating) = registered(Policy(levels=only, allow=allow))
        assert set(webhooks(validating)) - {GROUPS} == wanted
        assert {each.partition(".")[2] for each in named(Policy(levels=only, allow=allow))} == wanted | (
            {GROUPS} if groups else set()
        )


def named(policy: Policy) -> list[str]:
    every = defaults(policy, Options())
    return [each["metadata"]["name"] for each in every if "Binding" not in each["kind"]]


def test_every_version_and_nothing_else_is_registered() -> None:
    """There is no wildcard, no deletion, no status but that of pods, and every name has three parts."""
    versions = {
        PODIUM_GROUP: ["v1alpha2", "v1beta1"],
        NATIVE_GROUP: ["v1alpha2", "v1alpha3", "v1beta1"],
        "": ["v1"],
    }
    for configuration in registered(Policy(levels=INHERIT)):
        for name, webhook in webhooks(configuration).items():
            assert re.fullmatch(r"[a-z-]+\.podium\.dev", name)
            for rule in webhook["rules"]:
                (group,) = rule["apiGroups"]
                assert rule["apiVersions"] == versions[group]
                assert set(rule["operations"]) <= {"CREATE", "UPDATE"}
                assert set(rule["resources"]) <= {*ALL_GROUPS, "workloads", "pods", "pods/status"}


def test_options_and_endpoints() -> None:
    """Failure policies by family, exempt namespaces with the Service's own, and the seconds."""
    options = Options(
        failure={"native": "Fail", "podium": "Ignore"}, exempt=("kube-system",), timeout_seconds=7
    )
    endpoint = Endpoint(service=("mine", "hook"))
    _, validating = (webhooks(each) for each in registered(options=options, endpoint=endpoint))
    failure = {name: each["failurePolicy"] for name, each in validating.items()}
    assert failure == {GROUPS: "Ignore", PODS: "Ignore", NATIVE: "Fail"}
    assert {each["timeoutSeconds"] for each in validating.values()} == {7}
    assert validating[GROUPS]["namespaceSelector"] == {}
    for name in (PODS, NATIVE):
        (selected,) = validating[name]["namespaceSelector"]["matchExpressions"]
        assert (selected["operator"], selected["values"]) == ("NotIn", ["kube-system", "mine"])
    service = {"namespace": "mine", "name": "hook", "path": "/validate", "port": 443}
    assert validating[PODS]["clientConfig"] == {"service": service, "caBundle": "UEVN"}
    (url,) = {each["webhooks"][0]["clientConfig"]["url"] for each in registered()[:1]}
    assert url == "https://127.0.0.1:9443/mutate"


def test_the_binds_of_an_account_are_confined() -> None:
    """The webhook of binds is the last one, and closed: without an answer the account binds no pod."""
    mutating, validating = registered(options=Options(binder=("ns", 'a"b')))
    assert "binds.podium.dev" not in webhooks(mutating)
    binds = validating["webhooks"][-1]
    assert (binds["name"], binds["failurePolicy"], sent(binds)) == (
        "binds.podium.dev",
        "Fail",
        {"CREATE pods/binding"},
    )
    [account] = binds["matchConditions"]
    assert account["expression"] == r'request.userInfo.username == "system:serviceaccount:ns:a\"b"'


def entry(failure: str, bundle: str | None = "UEVN", name: str = GROUPS) -> dict[str, Any]:
    """Return a webhook as a server returns it."""
    client = {} if bundle is None else {"caBundle": bundle}
    return {"name": name, "failurePolicy": failure, "clientConfig": client}


ON = DeploymentState(is_off=False, is_available=True)
WAITS = DeploymentState(is_off=False, is_available=False)
GONE = DeploymentState(is_off=True, is_available=True)
OPEN, CLOSED = entry("Ignore"), entry("Fail")
STAGES: dict[str, tuple[DeploymentState | None, list[dict[str, Any]], bytes | None, Stage]] = {
    # the Deployment, the registered webhooks, the bundle
    "turned off": (GONE, [CLOSED], b"PEM", Stage.OFF),
    "turned off, never registered": (GONE, [], b"PEM", Stage.OFF),
    "first": (WAITS, [], b"PEM", Stage.OPEN),
    "first, beside available replicas": (ON, [], b"PEM", Stage.OPEN),
    "open, no replica available": (WAITS, [OPEN], b"PEM", Stage.OPEN),
    "open and available": (ON, [OPEN, OPEN], b"PEM", Stage.CLOSED),
    "open, with another bundle": (ON, [OPEN, entry("Ignore", "eA==")], b"PEM", Stage.OPEN),
    "open, without a bundle": (ON, [entry("Ignore", None)], b"PEM", Stage.OPEN),
    "closed, no replica available": (WAITS, [CLOSED], b"PEM", Stage.CLOSED),
    "closed, with another bundle": (WAITS, [entry("Fail", "eA==")], b"PEM", Stage.CLOSED),
    "one of two configurations was deleted": (WAITS, [CLOSED], b"PEM", Stage.CLOSED),
    "only native kinds fail closed": (WAITS, [entry("Fail", name=NATIVE)], b"PEM", Stage.OPEN),
    "another program's webhook": (WAITS, [entry("Fail", name="groups.example.com")], b"PEM", Stage.OPEN),
    "cainjector has not written": (ON, [entry("Ignore", None)], None, Stage.OPEN),
    "cainjector has written once": (ON, [OPEN, entry("Ignore", None)], None, Stage.OPEN),
    "cainjector has written": (ON, [OPEN, entry("Ignore", "eA==")], None, Stage.CLOSED),
    "no Deployment, first": (None, [], b"PEM", Stage.OPEN),
    "no Deployment": (None, [OPEN], b"PEM", Stage.CLOSED),
}


@pytest.mark.parametrize("case", STAGES)
def test_the_stage_of_a_registration(case: str) -> None:
    deployment, found, bundle, expected = STAGES[case]
    assert stage(deployment, found, bundle) is expected


def test_the_webhooks_of_a_stage() -> None:
    """An open registration refuses nothing without an answer, and validates no group that was not mutated."""
    opened: list[list[list[str]]] = []
    for configuration in registered(options=Options(failure={"pods": "Fail"})):
        webhooks = configuration["webhooks"]
        assert Stage.OFF.webhooks(webhooks) == []
        assert Stage.CLOSED.webhooks(webhooks) == webhooks
        lenient = Stage.OPEN.webhooks(webhooks)
        same = [{**webhook, "failurePolicy": "Ignore"} for webhook in webhooks]
        conditions = [webhook.pop("matchConditions") for webhook in lenient]
        before = [webhook.pop("matchConditions") for webhook in same]
        assert lenient == same
        opened.append(
            [
                [condition["name"] for condition in now[len(then) :]]
                for now, then in zip(conditions, before, strict=True)
            ]
        )
    mutating, validating = opened
    assert not any(mutating)
    assert validating == [["mutated"], [], []]


DEPLOYMENTS: dict[str, tuple[dict[str, Any] | None, DeploymentState]] = {
    "deleted": (None, DeploymentState(is_off=True, is_available=False)),
    "being deleted": (
        {"metadata": {"deletionTimestamp": "t"}, "spec": {"replicas": 2}},
        GONE._replace(is_available=False),
    ),
    "scaled to 0": (
        {"metadata": {}, "spec": {"replicas": 0}, "status": {"availableReplicas": 2}},
        GONE,
    ),
    "without a status": ({"metadata": {}, "spec": {"replicas": 1}}, WAITS),
    "one of two available": (
        {"metadata": {}, "spec": {"replicas": 2}, "status": {"availableReplicas": 1}},
        ON,
    ),
}


@pytest.mark.parametrize("case", DEPLOYMENTS)
def test_the_state_of_a_deployment(case: str) -> None:
    document, state = DEPLOYMENTS[case]
    assert state_of(document) == state


def test_custom_resources_with_two_versions_are_converted_by_the_same_process() -> None:
    for crd in definitions.crds(URL.client(CONVERT, None)):
        if len(crd["spec"]["versions"]) == 1:
            continue
        assert crd["spec"]["conversion"]["webhook"]["clientConfig"] == {
            "url": "https://127.0.0.1:9443/convert"
        }


NAMES = st.text("ab-.09z", max_size=6)
PATTERNS = st.lists(st.text("ab-.09z*?[]!^\\(|$", max_size=8), max_size=3)


@given(NAMES, PATTERNS)
def test_patterns_mean_in_cel_what_they_mean_to_the_rules(name: str, patterns: list[str]) -> None:
    """The regular expressions mean the same in Python and RE2, and equal fnmatch."""
    literal = re.fullmatch(r'x\.matches\("(.*)"\)', cel.matches("x", patterns))
    assert literal
    expression = literal[1].replace('\\"', '"').replace("\\\\", "\\")
    allowed = Allowance(namespaces=tuple(patterns)).covers(name)
    assert (re.search(expression, name) is not None) == (allowed or not (patterns or name))
