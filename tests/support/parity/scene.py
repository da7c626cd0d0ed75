"""The objects on both servers before a case: classes, a Workload, and sometimes a default class.

Both servers cache new writes, one in its Priority plugin, the other in Podium's webhook. So the scene waits
for each of its writes until a dry run of a group shows it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.parity.case import CLASSES, DEFAULTS, GANG, TEMPLATES, WORKLOAD, template, workload
from tests.support.parity.sides import Document, Side, Sides, Way
from tests.support.waiting import until

NAMESPACE = "parity"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

# Podium's own rules have levels and more messages than upstream. So parity is checked without those that
# refuse, and without the fields that a group takes from its template.
POLICY: Mapping[str, Any] = {
    "apiVersion": "config.podium.dev/v1",
    "kind": "AdmissionPolicy",
    "podium": {
        "basic-with-group-disruption": "off",
        "composite-child-mode": "off",
        "group-unlike-template": "off",
        "podium-name-length": "off",
    },
}


def config(folder: Path, policy: Mapping[str, Any]) -> str:
    """Return the argument that names a policy file."""
    file = folder / "policy.json"
    file.write_text(json.dumps(policy), encoding="utf-8")
    return f"--config={file}"


def prepare(sides: Sides) -> None:
    """Create the namespace, the classes and the Workload on both servers, and wait until they are seen."""
    for side in sides:
        make(side, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, value in CLASSES.items():
            policy = "Never" if name == "never" else "PreemptLowerPriority"
            make(side, _CLASSES, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy})
        for name, value in CLASSES.items():
            until_resolved(side, name, value)
        metadata = {"name": WORKLOAD, "namespace": NAMESPACE}
        templates = [template(name) for name in TEMPLATES]
        written = side.write(Way.CREATE, {"kind": "Workload", "metadata": metadata, **workload(*templates)})
        assert written.allowed, written


def set_default(sides: Sides, name: str) -> None:
    """Make one of the classes the default, without which there is none, until `unset_default`."""
    for side in sides:
        body = {"metadata": {"name": name}, "value": DEFAULTS[name], "globalDefault": True}
        make(side, _CLASSES, body)
        until_resolved(side, "", DEFAULTS[name])


def unset_default(sides: Sides, name: str) -> None:
    """Delete a class that `set_default` made."""
    for side in sides:
        code, answer = side.client.request("DELETE", f"{_CLASSES}/{name}")
        assert code == 200, answer
        until_resolved(side, "", 0)


def make(side: Side, path: str, body: Document) -> None:
    code, answer = side.client.request("POST", path, body)
    assert code == 201, answer


def until_resolved(side: Side, name: str, value: int, namespace: str = NAMESPACE) -> None:
    """Wait until a group of a class gets its integer; an empty name means the default class, or none."""
    document = probe(name, namespace)

    def seen() -> bool:
        made = side.write(Way.CREATE, document, dry=True).object
        return made is not None and made["spec"].get("priority") == value

    until(seen, f"PriorityClass {name or '(default)'} = {value} at {side.server.url}")


def probe(name: str, namespace: str = NAMESPACE) -> Document:
    """Return a group that is only sent as a dry run."""
    spec = {"schedulingPolicy": GANG, **({"priorityClassName": name} if name else {})}
    return {"kind": "PodGroup", "metadata": {"name": "probe", "namespace": namespace}, "spec": spec}


def until_unknown(side: Side, name: str, namespace: str) -> None:
    """Wait until a group of a deleted class is refused."""
    document = probe(name, namespace)
    until(lambda: side.write(Way.CREATE, document, dry=True).code == 403, f"no {name} at {side.server.url}")
