"""Stable names: a finding on tomorrow's Job equals today's, and never that of another Job."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import BUILDABLE

from podium.answers.audits.run import lasting_name
from podium.api.findings import ObjectRef
from podium.documents.load import load_state
from podium.documents.split import split

Document = dict[str, Any]
NATIVE = "scheduling.k8s.io/v1beta1"
JOB = ("batch/v1", "Job", "train")
DATED = ("batch/v1", "Job", "nightly-29384750")
SET = ("jobset.x-k8s.io/v1alpha2", "JobSet", "sweep-x7z2p")
CRON = ("batch/v1", "CronJob", "nightly")

# rand.SafeEncodeString of Kubernetes: each character by its code, in letters that form no words.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def document(
    api_version: str, kind: str, name: str, owner: tuple[str, str, str] | None = None, generate: str = ""
) -> Document:
    """Write an object with an owner that controls it."""
    metadata: Document = {"name": name, "namespace": "team-a"}
    if owner is not None:
        keys = ("apiVersion", "kind", "name")
        metadata["ownerReferences"] = [{**dict(zip(keys, owner, strict=True)), "controller": True}]
    if generate:
        metadata["generateName"] = generate
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def lasting(*documents: Document) -> str:
    """Return the stable name of the last of some objects."""
    text = b"\n".join(json.dumps(each).encode() for each in documents)
    state = load_state(split(text, "cluster.json"), strict=True).state
    last = documents[-1]
    metadata = last["metadata"]
    ref = ObjectRef(last["apiVersion"], last["kind"], metadata["namespace"], metadata["name"])
    return lasting_name(state, ref)


def job_hash(number: int) -> str:
    """Write a 32-bit hash as Kubernetes' Job controller does."""
    return "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(number))


HASH, OTHER = job_hash(3141592653), job_hash(2718281828)
NIGHTLY = [document("batch/v1", "CronJob", "nightly"), document(*DATED, CRON)]
CASES: dict[str, tuple[Sequence[Document], str]] = {
    "a chosen name": ([document(NATIVE, "PodGroup", "train")], "train"),
    "a group of a Job": (
        [document(*JOB), document(NATIVE, "PodGroup", f"train-{HASH}-train-pgt-0-{OTHER}", JOB)],
        "train-*-train-pgt-0-*",
    ),
    "whose Job was not read": (
        [document(NATIVE, "PodGroup", f"train-{HASH}-workers-{OTHER}", JOB)],
        "train-*-workers-*",
    ),
    "a Workload of a Job": ([document(NATIVE, "Workload", f"train-{HASH}", JOB)], "train-*"),
    "a generated name without an owner": ([document(NATIVE, "Workload", f"train-{HASH}")], f"train-{HASH}"),
    "a group of a Job, by Podium": (
        [document(*JOB), document("scheduling.podium.dev/v1beta1", "PodGroup", "train-job", JOB)],
        "train-job",
    ),
    "a Job of a CronJob": (NIGHTLY, "nightly-*"),
    "a Job of a CronJob, named by hand": (
        [NIGHTLY[0], document("batch/v1", "Job", "nightly-by-hand", CRON)],
        "nightly-by-hand",
    ),
    "a group of a Job of a CronJob": (
        [
            *NIGHTLY,
            document(NATIVE, "PodGroup", f"{DATED[2]}-{HASH}-{DATED[2]}-pgt-0-{OTHER}", DATED),
        ],
        "nightly-*-*-nightly-*-pgt-0-*",
    ),
    "the same, by Podium": (
        [*NIGHTLY, document("scheduling.podium.dev/v1beta1", "PodGroup", f"{DATED[2]}-job", DATED)],
        "nightly-*-job",
    ),
    "a generated name": ([document(*SET, generate="sweep-")], "sweep-*"),
    "a generated name that does not exist yet": (
        [document("jobset.x-k8s.io/v1alpha2", "JobSet", "sweep-*1", generate="sweep-")],
        "sweep-*",
    ),
    "a generated name that was taken over": ([document(*SET, generate="other-")], "sweep-x7z2p"),
    "a Job of a JobSet with a generated name": (
        [document(*SET, generate="sweep-"), document("batch/v1", "Job", "sweep-x7z2p-workers-0", SET)],
        "sweep-*-workers-0",
    ),
    "a Workload of Kueue": (
        [*NIGHTLY, document("kueue.x-k8s.io/v1beta1", "Workload", f"job-{DATED[2]}-4f1ac", DATED)],
        "job-nightly-*-*",
    ),
    "a Workload of Kueue with another hash than Kueue's": (
        [document("kueue.x-k8s.io/v1beta1", "Workload", "job-train-gamma", JOB)],
        "job-train-gamma",
    ),
    "owners in a loop": (
        [document("batch/v1", "Job", "a", ("batch/v1", "Job", "a"))],
        "a",
    ),
    "an owner of another name": ([document(NATIVE, "PodGroup", "other", JOB)], "other"),
}


@pytest.mark.parametrize(("documents", "name"), CASES.values(), ids=list(CASES))
def test_lasting_name(documents: Sequence[Document], name: str) -> None:
    """Generated parts become a `*`, and no other part does."""
    assert lasting(*documents) == name


@given(st.integers(10**5, 2**32 - 1), st.integers(10**5, 2**32 - 1))
def test_any_hash_of_the_job_controller_is_made_up(mine: int, theirs: int) -> None:
    """The group of a Job has one stable name for any UID of the Job."""
    name = f"train-{job_hash(mine)}-workers-{job_hash(theirs)}"
    assert lasting(document(NATIVE, "PodGroup", name, JOB)) == "train-*-workers-*"


@pytest.fixture(scope="module", params=in_turn(__name__))
def with_job_groups(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a cluster whose Job controller makes a Workload and a PodGroup of each gang."""
    release = BUILDABLE[request.param]
    gates = (*release.feature_gates, "WorkloadWithJob")
    with pytest.MonkeyPatch.context() as patch:
        # A cluster keeps only the minor, and takes the gates from the table.
        patch.setitem(BUILDABLE, request.param, release._replace(feature_gates=gates))
        with exclusive(BUILDABLE[request.param], controllers=True) as server:
            yield server


@pytest.mark.server
def test_a_job_made_anew_has_groups_of_the_same_lasting_names(with_job_groups: Server) -> None:
    """The real Job controller renames group and Workload with a new Job; their stable names stay."""
    server = with_job_groups
    namespace = server.new_namespace()
    first, second = (_made(server, namespace) for _ in range(2))
    assert first.keys().isdisjoint(second)
    assert sorted(first.values()) == sorted(second.values())
    assert all("*" in name for name in first.values())


def _made(server: Server, namespace: str) -> dict[str, str]:
    """Create a Job and delete it later; return its controller's objects: names with stable names."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    server.kubectl("create", "-n", namespace, "-f", "-", stdin=job)
    kinds = "workloads.scheduling.k8s.io,podgroups.scheduling.k8s.io"

    def items() -> list[Document]:
        made: list[Document] = json.loads(server.kubectl("get", "-n", namespace, kinds, "-o", "json"))[
            "items"
        ]
        return made

    until(lambda: len(items()) == 2, "a Workload and a PodGroup")
    names = {each["metadata"]["name"]: lasting(each) for each in items()}
    server.kubectl("delete", "-n", namespace, "job/train", "--cascade=foreground", "--wait=true")
    until(lambda: not items(), "both to go with their Job")
    return names
