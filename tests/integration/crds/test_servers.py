"""Real servers accept the CustomResourceDefinitions and validate like the native kinds."""

import base64
import copy
import itertools
from typing import Any

import pytest
from tests.support.crds.cases import CASES, NEWER, OLDER, Case, Causes, group, template, workload
from tests.support.crds.composites import COMPOSITES
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.crds import definitions
from podium.documents.files import folder
from podium.documents.yamldoc import load_all

pytestmark = pytest.mark.server

# The version that the native kinds of each minor share with Podium's.
NATIVE = {"1.36": OLDER, "1.37": NEWER}
# v1alpha2 is not served without its webhook: the tests serve it alone, under another group.
ALONE = "alone.test.podium.dev"
GROUPS = {OLDER: ALONE, NEWER: PODIUM_GROUP}
NUMBERS = itertools.count()


def in_group(crd: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a definition under another group, without the short name, which would have two meanings."""
    moved = copy.deepcopy(crd)
    del moved["spec"]["names"]["shortNames"]
    moved["spec"]["group"] = name
    moved["metadata"]["name"] = f"{moved['spec']['names']['plural']}.{name}"
    return moved


def established(server: Server, definition: dict[str, Any]) -> None:
    """Wait until a definition is served; a non-structural schema would be a condition of it."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"

    def conditions() -> dict[str, str]:
        code, read = server.request("GET", path)
        assert code == 200, read
        return {one["type"]: one["status"] for one in read["status"].get("conditions") or ()}

    # `kubectl wait` fails on a definition that has no conditions yet.
    until(lambda: conditions().get("Established") == "True", "the definition is established")
    assert conditions() == {"Established": "True", "NamesAccepted": "True"}


@pytest.fixture(scope="module", autouse=True)
def served(server: Server) -> None:
    """Install the shipped definitions, as a user does, and v1alpha2 alone."""
    server.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(folder("manifests") / "crds"))
    for shipped in definitions.crds():
        established(server, shipped)
        if len(shipped["spec"]["versions"]) == 1:
            continue
        alone = in_group(shipped, ALONE)
        older, _ = alone["spec"]["versions"]
        alone["spec"]["versions"] = [{**older, "served": True, "storage": True}]
        server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=alone)
        established(server, alone)


class Objects:
    """The objects of one version of one kind in one namespace."""

    def __init__(self, server: Server, namespace: str, api_version: str, kind: str) -> None:
        self.server = server
        self.api_version = api_version
        self.kind = kind
        self.path = f"/apis/{api_version}/namespaces/{namespace}/{kind.lower()}s"

    def create(self, spec: dict[str, Any], query: str = "", **metadata: Any) -> tuple[int, Any]:
        """Create an object with a name of its own."""
        named = {"name": f"object-{next(NUMBERS)}"} | metadata
        body = {"apiVersion": self.api_version, "kind": self.kind, "metadata": named, "spec": spec}
        return self.server.request("POST", self.path + query, body)

    def replace(self, stored: dict[str, Any], spec: dict[str, Any]) -> tuple[int, Any]:
        """Replace the stored spec; the integer that a server added stays."""
        added = {"priority": stored["spec"]["priority"]} if "priority" in stored["spec"] else {}
        wanted = {key: value for key, value in (added | spec).items() if value is not None}
        path = f"{self.path}/{stored['metadata']['name']}"
        return self.server.request("PUT", path, stored | {"spec": wanted})

    def judged(self, case: Case) -> tuple[int, Causes]:
        """Return the code and the causes of a case's last request."""
        code, answer = self.create(case.spec)
        if case.after is not None:
            assert code == 201, answer
            code, answer = self.replace(answer, case.after)
        return code, causes(answer)


def causes(answer: dict[str, Any]) -> Causes:
    """Return (field, message) of each cause of a refusal."""
    given = (answer.get("details") or {}).get("causes") or []
    return sorted(
        (cause["field"], cause["message"])
        for cause in given
        # A hint at further errors, besides the cause that names the fault.
        if "some validation rules were not checked" not in cause["message"]
    )


def agree(got: Causes, wanted: Causes) -> bool:
    """Return whether the causes are exactly those, each at its field and with its text."""
    return len(got) == len(wanted) and all(
        field == place and text in message
        for (field, message), (place, text) in zip(got, sorted(wanted), strict=True)
    )


RUNS = [(case, version) for case in (*CASES, *COMPOSITES) for version in case.versions]


@pytest.mark.parametrize(("case", "version"), RUNS, ids=[f"{version} {case.name}" for case, version in RUNS])
def test_a_schema_judges_as_upstream_does(server: Server, shared: str, case: Case, version: str) -> None:
    """Podium's kind answers as the table requires, and so does the native kind of that version."""
    code, got = Objects(server, shared, f"{GROUPS[version]}/{version}", case.kind).judged(case)
    assert code == code_of(case, case.causes), got
    assert agree(got, case.causes), got
    if case.compared and NATIVE[server.release.minor] == version:
        wanted = case.causes if case.upstream is None else case.upstream
        code, got = Objects(server, shared, f"{NATIVE_GROUP}/{version}", case.kind).judged(case)
        assert code == code_of(case, wanted), got
        assert agree(got, wanted), got


def code_of(case: Case, wanted: Causes) -> int:
    """Return the code of a refusal, a create or an update."""
    return 422 if wanted else 201 if case.after is None else 200


@pytest.fixture(scope="module")
def shared(server: Server) -> str:
    """Return one namespace for the whole table."""
    return server.new_namespace()


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_nothing_is_filled_in_by_the_schema(server: Server, shared: str, version: str) -> None:
    """An absent mode stays absent until the webhook sets the template's or the default."""
    api = f"{GROUPS[version]}/{version}"
    code, made = Objects(server, shared, api, "PodGroup").create(group())
    assert (code, made["spec"]) == (201, group())
    code, made = Objects(server, shared, api, "Workload").create(workload(template()))
    assert (code, made["spec"]) == (201, workload(template()))


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_an_unknown_field_is_pruned_or_refused_as_the_client_asks(
    server: Server, shared: str, version: str
) -> None:
    groups = Objects(server, shared, f"{GROUPS[version]}/{version}", "PodGroup")
    code, made = groups.create(group(unheardOf="all"))
    assert code == 201, made
    assert "unheardOf" not in made["spec"]
    code, refused = groups.create(group(unheardOf="all"), "?fieldValidation=Strict")
    assert code == 400
    assert 'unknown field "spec.unheardOf"' in refused["message"]


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_a_groups_name_fits_a_label(server: Server, shared: str, version: str) -> None:
    """A PodGroup's name has 63 characters at most; a generated name always fits."""
    groups = Objects(server, shared, f"{GROUPS[version]}/{version}", "PodGroup")
    number = f"{next(NUMBERS):04d}"
    assert groups.create(group(), name=number + "x" * 59)[0] == 201
    assert groups.create(group(), name="", generateName="x" * 80)[0] == 201
    code, refused = groups.create(group(), name=number + "x" * 60)
    assert code == 422
    assert "metadata.name must be no more than 63 characters" in refused["message"]
    workloads = Objects(server, shared, f"{GROUPS[version]}/{version}", "Workload")
    assert workloads.create(workload(template()), name=number + "x" * 60)[0] == 201


TIME = "2026-11-21T00:00:00Z"
CONDITION = {"type": "DisruptionTarget", "status": "True", "reason": "Preempted", "lastTransitionTime": TIME}
STATUSES: list[tuple[str, dict[str, Any], Causes]] = [
    ("a condition", {"conditions": [CONDITION]}, []),
    ("a type of one's own", {"conditions": [CONDITION | {"type": "PodsNotMatchingPriority"}]}, []),
    ("a type with a prefix", {"conditions": [CONDITION | {"type": "example.com/Ready"}]}, []),
    (
        "unknown status",
        {"conditions": [CONDITION | {"status": "Maybe"}]},
        [("status.conditions[0].status", 'supported values: "')],
    ),
    (
        "no reason",
        {"conditions": [{key: value for key, value in CONDITION.items() if key != "reason"}]},
        [("status.conditions[0].reason", "Required value")],
    ),
    (
        "negative generation",
        {"conditions": [CONDITION | {"observedGeneration": -1}]},
        [("status.conditions[0].observedGeneration", "greater than or equal to")],
    ),
    ("a type twice", {"conditions": [CONDITION, CONDITION]}, [("status.conditions[1]", "Duplicate value")]),
    ("a claim", {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-x"}]}, []),
    (
        "a claim of another group",
        {"resourceClaimStatuses": [{"name": "net"}]},
        [("status.resourceClaimStatuses", "must match the name of an entry in `spec.resourceClaims`")],
    ),
]


@pytest.mark.parametrize("version", [OLDER, NEWER])
@pytest.mark.parametrize(
    ("status", "wanted"), [row[1:] for row in STATUSES], ids=[row[0] for row in STATUSES]
)
def test_a_status_is_written_beside_the_spec(
    server: Server, shared: str, version: str, status: dict[str, Any], wanted: Causes
) -> None:
    """Status is written through /status only, which does not change the spec."""
    groups = Objects(server, shared, f"{GROUPS[version]}/{version}", "PodGroup")
    spec = group(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu-x"}])
    code, made = groups.create(spec)
    assert code == 201, made
    path = f"{groups.path}/{made['metadata']['name']}"
    code, answer = server.request("PUT", f"{path}/status", made | {"status": status, "spec": group()})
    assert code == (422 if wanted else 200), answer
    assert agree(causes(answer), wanted), answer
    if not wanted:
        assert (answer["status"], answer["spec"]) == (status, made["spec"])
        code, answer = server.request("PUT", path, answer | {"status": {}})
        assert (code, answer["status"]) == (200, status)


def test_kubectl_lists_them_by_category_and_column(server: Server, shared: str) -> None:
    """`kubectl get podium` lists all kinds; a column of a group is a word or a number."""
    groups = Objects(server, shared, f"{PODIUM_GROUP}/{NEWER}", "PodGroup")
    code, made = groups.create(group(priorityClassName="gold", priority=1000))
    assert code == 201, made
    name = made["metadata"]["name"]
    header, line = server.kubectl("get", "ppg", name, "-n", shared).splitlines()
    assert header.split() == ["NAME", "MIN", "CLASS", "PRIORITY", "SCHEDULED", "REASON", "DIVERGENT", "AGE"]
    assert line.split()[:4] == [name, "2", "gold", "1000"]
    waits = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    path = f"{groups.path}/{name}/status"
    code, answer = server.request("PUT", path, made | {"status": {"conditions": [waits]}})
    assert code == 200, answer
    _, line = server.kubectl("get", "ppg", name, "-n", shared).splitlines()
    assert line.split()[4:6] == ["False", "Unschedulable"]
    code, made = groups.create({"schedulingPolicy": {"basic": {}}})
    assert code == 201, made
    _, line = server.kubectl("get", "ppg", made["metadata"]["name"], "-n", shared).splitlines()
    # Only name and age.
    assert len(line.split()) == 2
    workloads = Objects(server, shared, f"{PODIUM_GROUP}/{NEWER}", "Workload")
    controller = {"apiGroup": "batch", "kind": "Job", "name": "llm"}
    code, made = workloads.create(workload(template(priority=7), controllerRef=controller))
    assert code == 201, made
    listed = server.kubectl("get", "podium", "-n", shared)
    assert f"podgroup.{PODIUM_GROUP}/{name}" in listed
    made_name = made["metadata"]["name"]
    header, line = server.kubectl("get", "pwl", made_name, "-n", shared).splitlines()
    assert header.split() == ["NAME", "CONTROLLER", "CLASS", "PRIORITY", "AGE"]
    assert line.split()[:3] == [made_name, "llm", "7"]


def test_kubectl_shows_the_last_plan_of_a_record(server: Server, shared: str) -> None:
    """The columns of a record without plans are empty."""
    examples = folder("manifests").parent / "examples"
    (record,) = load_all((examples / "preemption" / "records.yaml").read_bytes())
    record["metadata"] = {"name": "record-1", "namespace": shared}
    last = record["plans"][-1]
    server.kubectl("create", "-f", "-", stdin=record)
    server.kubectl(
        "create", "-f", "-", stdin={**record, "metadata": {"name": "empty", "namespace": shared}, "plans": []}
    )
    header, empty, line = server.kubectl("get", "prec", "-n", shared).splitlines()
    assert header.split() == ["NAME", "PREEMPTOR", "VICTIMS", "RESULT", "LAST", "AGE"]
    pods = str(last["podCount"])
    assert line.split()[:4] == ["record-1", last["preemptor"]["name"], pods, last["result"]]
    assert len(empty.split()) == 2


def test_both_versions_are_accepted_with_a_conversion_webhook(server: Server) -> None:
    """The manifests of an install with the webhook are accepted under another group, without conversion."""
    bundle = base64.b64encode(server.access.authority.read_bytes()).decode()
    for crd in definitions.crds({"url": "https://127.0.0.1:1/convert", "caBundle": bundle}):
        hooked = in_group(crd, "hooked.test.podium.dev")
        server.kubectl("apply", "--server-side", "-f", "-", stdin=hooked)
        established(server, hooked)
