"""A model of a server's history of one resource, and the bytes that the server would send."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Stored = dict[str, Any]


class Change(NamedTuple):
    """A write as a watch reports it."""

    version: int
    type: str
    object: Stored


def group(name: str, version: int, **spec: Any) -> Stored:
    """A PodGroup as it is stored."""
    return {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {"schedulingPolicy": {"basic": {}}, **spec},
    }


def unreadable(name: str, version: int) -> Stored:
    """A PodGroup that our reads cannot decode."""
    return group(name, version, priority="high")


def event(kind: str, obj: Any) -> bytes:
    """Return a line of a watch."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int, *, ends_list: bool = False) -> bytes:
    """A bookmark; with `initial` the one that ends a streamed list."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "PodGroup", "metadata": metadata})


def failure(code: int, reason: str) -> bytes:
    """An ERROR event."""
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "because"})


def page(items: list[Stored], version: int, next_page: str = "") -> bytes:
    """Return a page of a list."""
    metadata = {"resourceVersion": str(version), **({"continue": next_page} if next_page else {})}
    return json.dumps({"kind": "PodGroupList", "metadata": metadata, "items": items}).encode()


@dataclass
class History:
    """All writes to the resource; writes older than `horizon` are compacted."""

    version: int = 10
    horizon: int = 10
    objects: dict[str, Stored] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def put(self, name: str, *, readable: bool = True) -> None:
        """Create or update an object."""
        self.version += 1
        obj = group(name, self.version) if readable else unreadable(name, self.version)
        before = self.objects.get(name)
        # An object that is created again is another object.
        obj["metadata"]["uid"] = before["metadata"]["uid"] if before else f"uid-{name}-{self.version}"
        self.changes.append(Change(self.version, "MODIFIED" if name in self.objects else "ADDED", obj))
        self.objects[name] = obj

    def delete(self, name: str) -> None:
        """Delete an object: the event carries the version of the deletion."""
        self.version += 1
        last = self.objects.pop(name)
        metadata = {**last["metadata"], "resourceVersion": str(self.version)}
        self.changes.append(Change(self.version, "DELETED", {**last, "metadata": metadata}))

    def compact(self) -> None:
        """Compact the history up to now."""
        self.horizon = self.version

    def since(self, version: int) -> list[bytes] | None:
        """Return the lines of a watch from a version; None if that version is compacted."""
        if version < self.horizon:
            return None
        return [event(each.type, each.object) for each in self.changes if each.version > version]

    def readable(self) -> dict[str, str]:
        """Return the true resourceVersion of each readable object, by name."""
        return {
            name: obj["metadata"]["resourceVersion"] for name, obj in self.objects.items() if is_readable(obj)
        }

    def unreadable(self) -> dict[str, set[str]]:
        """Return the other objects: by name, the resourceVersions at which the object could be read."""
        return {
            name: {
                change.object["metadata"]["resourceVersion"]
                for change in self.changes
                if change.object["metadata"]["uid"] == obj["metadata"]["uid"] and is_readable(change.object)
            }
            for name, obj in self.objects.items()
            if not is_readable(obj)
        }


def is_readable(obj: Stored) -> bool:
    """Return whether our reads can decode an object."""
    return not isinstance(obj["spec"].get("priority"), str)
