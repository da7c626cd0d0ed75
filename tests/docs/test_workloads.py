"""The manifests of docs/workloads.md are files of examples/workloads, and API servers accept them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.docs.pages import ROOT
from tests.support.servers import Server, exclusive
from tests.support.webhooks.running import running
from tools.devcluster.controlplane.releases import RELEASES

_EXAMPLES = ROOT / "examples" / "workloads"
_FILES = {each.name: each.read_text("utf-8") for each in sorted(_EXAMPLES.iterdir())}
_PAGE = (ROOT / "docs" / "workloads.md").read_text("utf-8")
# Files for any server with Podium's kinds, and files for servers with native groups.
_ANYWHERE = ("job.yaml", "auto.yaml", "podium.yaml")
_NATIVE = {"1.36": "native-1.36.yaml", "1.37": "native-1.37.yaml"}


def test_the_page_shows_what_is_in_the_files() -> None:
    """The page quotes the files literally, with the purpose of each."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert any(block in text for text in _FILES.values()), block
    for name in _FILES:
        assert name in _PAGE


@pytest.fixture(scope="module", params=["1.36", "1.37", "bare"])
def webhooks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield each kind of server with Podium's webhook."""
    bare = request.param == "bare"
    with (
        exclusive(RELEASES["1.37" if bare else request.param], workload_api=not bare) as server,
        running(server, tmp_path_factory.mktemp("webhook")),
    ):
        server.kubectl("label", "namespace", "default", "scheduling.podium.dev/auto-groups=true")
        server.kubectl("apply", "-f", str(_EXAMPLES / "class.yaml"))
        yield server


def _pod(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    """Create a pod as the Job controller does, because none runs here; it must be accepted."""
    owner = json.loads(server.kubectl("get", "job", "train", "-o", "json"))["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": owner["uid"]}
    template = job["spec"]["template"]
    metadata = {
        "generateName": "train-",
        "labels": template.get("metadata", {}).get("labels", {}),
        "ownerReferences": [{**reference, "controller": True}],
    }
    path = "/api/v1/namespaces/default/pods"
    code, made = server.request("POST", path, {"metadata": metadata, "spec": template["spec"]})
    assert code == 201, made
    return dict(made)


@pytest.mark.server
def test_they_are_admitted(webhooks: Server) -> None:
    """The server accepts the files without a warning, and sets the class's integer and the group's label."""
    served = webhooks.settings.workload_api
    for name in (*_ANYWHERE, *([_NATIVE[webhooks.release.minor]] if served else [])):
        webhooks.kubectl("apply", "--warnings-as-errors", "-f", str(_EXAMPLES / name))
        for document in yaml.safe_load_all(_FILES[name]):
            if document["kind"] == "PodGroup":
                kind = f"podgroups.{document['apiVersion'].partition('/')[0]}"
                group = json.loads(webhooks.kubectl("get", kind, "train", "-o", "json"))
                assert group["spec"]["priority"] == 1000
            else:
                pod = _pod(webhooks, document)
                assert pod["spec"]["priority"] == (0 if name == "job.yaml" else 1000)
                label = pod["metadata"].get("labels", {}).get("scheduling.podium.dev/pod-group")
                assert label == {"auto.yaml": "train-job", "podium.yaml": "train"}.get(name)
        webhooks.kubectl("delete", "job", "train")


@pytest.mark.server
def test_a_rack_is_stored(webhooks: Server) -> None:
    """The server keeps the constraint of Podium's group. It drops the native one: its gate is off."""
    native = webhooks.settings.workload_api and webhooks.release.minor == "1.37"
    for name in ("rack.yaml", *(["rack-native-1.37.yaml"] if native else [])):
        webhooks.kubectl("apply", "--warnings-as-errors", "-f", str(_EXAMPLES / name))
        group, job = yaml.safe_load_all(_FILES[name])
        kind = f"podgroups.{group['apiVersion'].partition('/')[0]}"
        stored = json.loads(webhooks.kubectl("get", kind, "train-rack", "-o", "json"))["spec"]
        wanted = group["spec"]["schedulingConstraints"] if name == "rack.yaml" else None
        assert stored.get("schedulingConstraints") == wanted
        webhooks.kubectl("delete", "job", job["metadata"]["name"])
