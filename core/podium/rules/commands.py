"""The commands and edits in fixes, each written once and ready to be pasted.

Names come from other people's files and may contain any character, so every name in a command is quoted for a
shell.
"""

from collections.abc import Sequence
from shlex import quote

from podium.api.findings import ObjectRef
from podium.text import SHOWN, listed

_RESTARTABLE = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
_RESOURCES = {"Pod": "pod", "PodGroup": "podgroup", "Workload": "workload", "PriorityClass": "priorityclass"}


def resource(ref: ObjectRef) -> str:
    """Return a kind's name for kubectl, with its API group if several groups have the kind."""
    word = _RESOURCES.get(ref.kind, ref.kind.lower())
    return f"{word}.{ref.group}" if ref.kind in ("PodGroup", "Workload") else word


def delete(ref: ObjectRef) -> str:
    """Return the command that deletes one object without waiting: a group's finalizer waits for its pods."""
    wait = " --wait=false" if ref.kind == "PodGroup" else ""
    return f"kubectl delete {resource(ref)} {quote(ref.name)}{_in(ref.namespace)}{wait}"


def delete_pods(namespace: str, names: Sequence[str]) -> str:
    """Return the command that deletes a group's pods; it names the first few and counts the rest."""
    more = f" ... ({len(names) - SHOWN:,} more)" if len(names) > SHOWN else ""
    return f"kubectl delete pod {' '.join(quote(name) for name in names[:SHOWN])}{more}{_in(namespace)}"


def recreate(owners: Sequence[ObjectRef]) -> str:
    """Return the commands that make owners recreate their pods: a rollout, or else delete and apply."""
    parts = [
        f"kubectl rollout restart {_RESTARTABLE[owner.kind]}/{quote(owner.name)}{_in(owner.namespace)}"
        if owner.kind in _RESTARTABLE
        else f"delete and recreate {owner}"
        for owner in owners[:SHOWN]
    ]
    more = [f"the same for {len(owners) - SHOWN:,} more"] if len(owners) > SHOWN else []
    return "; ".join(parts + more)


def class_ref(name: str) -> ObjectRef:
    """Return the identity of a PriorityClass, whether it exists or not."""
    return ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", name)


def create_class(name: str, value: str) -> str:
    """Return the command that creates a PriorityClass."""
    return f"kubectl create priorityclass {quote(name)} {quote(f'--value={value}')}"


def annotate_class(name: str, *changes: str) -> str:
    """Return the command that annotates a PriorityClass: `key=value`, or `key-` to remove one."""
    return f"kubectl annotate priorityclass {quote(name)} --overwrite {' '.join(map(quote, changes))}"


def templates_of(owners: Sequence[ObjectRef]) -> str:
    """Return the names of the owners whose pod template to edit."""
    if not owners:
        return "the pods"
    return f"the pod template of {listed([str(owner) for owner in owners[:SHOWN]])}"


def _in(namespace: str) -> str:
    return f" -n {quote(namespace)}" if namespace else ""
