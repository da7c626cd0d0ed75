"""An installation by kubectl on a server: the manifests, and what is there before and after."""

import contextlib
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.support.calling import invoke
from tests.support.servers import Server
from tests.support.waiting import until

NAMESPACE = "podium-system"
GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/default/podgroups"
MERGE = "application/merge-patch+json"
# Kinds whose objects come and go by themselves, or record deleted ones. The API server removes the address of
# a Service that was not created a minute later.
_RESTLESS = ("events", "leases", "endpoints", "endpointslices", "nodes", "ipaddresses")


def podium(server: Server, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    """Call a command of ours against a server, in this process; it must exit with this code."""
    command, *rest = arguments
    line = [command, f"--kubeconfig={server.kubeconfig}", *rest]
    done = invoke(line, Path.cwd())
    assert done.code == code, f"{done.code}\n{done.stdout}\n{done.stderr}"
    return subprocess.CompletedProcess(line, *done)


def apply(server: Server, documents: Iterable[Mapping[str, Any]]) -> None:
    """Apply documents as `kubectl apply --server-side` does, without force."""
    server.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(documents))


def path_of(document: Mapping[str, Any]) -> str:
    """Return the path of an object of the manifests."""
    version, kind, metadata = document["apiVersion"], document["kind"].lower(), document["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    return f"{root}{where}/{plural}/{metadata['name']}"


def json_of(server: Server, path: str) -> Any:
    """Return the object at a path, or None; each call opens a connection, so any thread may call it."""
    with contextlib.closing(server.access.client()) as client:
        code, answer = client.request("GET", path)
        return answer if code == 200 else None


def stock(server: Server) -> dict[str, Any]:
    """Return all objects of every listable resource, by path, without fields that change by themselves."""
    found: dict[str, Any] = {}

    def listed(path: str, of: str) -> list[Any]:
        # A group or a resource may be terminating.
        code, answer = server.request("GET", path)
        return list(answer[of]) if code == 200 else []

    versions = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in listed("/apis", "groups")]
    for version in ["/api/v1", *versions]:
        for resource in listed(version, "resources"):
            name = resource["name"]
            if "list" not in resource["verbs"] or name in _RESTLESS:
                continue
            for each in listed(f"{version}/{name}", "items"):
                metadata = each["metadata"]
                for note in ("managedFields", "resourceVersion"):
                    metadata.pop(note, None)
                found[f"{version}/{name} {metadata.get('namespace', '')}/{metadata['name']}"] = each
    return found


def settled(server: Server) -> dict[str, Any]:
    """List all objects when controllers have settled: two equal listings without a terminating namespace."""
    seen: list[dict[str, Any]] = [{}]

    def still() -> bool:
        seen.append(stock(server))
        return seen[-1] == seen[-2] and not any(
            each["metadata"].get("deletionTimestamp") for each in seen[-1].values()
        )

    until(still, "the cluster is still")
    return seen[-1]


def stored(server: Server, path: str) -> Any:
    """Return the object at a path, which must exist."""
    code, answer = server.request("GET", path)
    assert code == 200, answer
    return answer


def patch(server: Server, path: str, body: Any) -> None:
    """Merge into an object; the write must be accepted."""
    code, answer = server.request("PATCH", path, body, MERGE)
    assert code == 200, answer
