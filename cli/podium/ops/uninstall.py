"""The steps of an uninstall as values: their order, and what is kept.

Registrations are removed first, so that no write is refused for lack of an answer. Then v1alpha2 is closed,
because it cannot be read without a webhook. The processes are removed next, and the uninstall waits for them:
otherwise the reconciler would restore the finalizers and the status of groups. The policies on what the
accounts may write are removed last.

Without a controller only one fact in the status of a group stays true: that the group was scheduled. Why it
waits, that it will be evicted, or which of its pods differ becomes outdated. These conditions are removed, on
native groups too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.api.groups import (
    CONTROLLER_MANAGER,
    FINALIZER,
    GROUP_SCHEDULED,
    INITIALLY_SCHEDULED,
    SCHEDULER_MANAGER,
)
from podium.ops.install import REGISTRATIONS, Document, Key, key_of, manifests, objects_path
from podium.ops.restoring import chosen, owned
from podium.text import count

NAMESPACE = "podium-system"

_DEFINITION = "CustomResourceDefinition"
_LAST = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")


class DeleteStep(NamedTuple):
    """Delete some objects, and wait until they and their dependents are gone."""

    objects: tuple[tuple[Key, str], ...]  # With their UIDs.

    def __str__(self) -> str:
        return "\n".join(f"delete {key}" for key, _ in self.objects)


class Close(NamedTuple):
    """Serve only the stored version of a custom resource, which needs no conversion."""

    key: Key

    def __str__(self) -> str:
        return f"serve {self.key} in its stored version only"


class ReleaseStep(NamedTuple):
    """Remove our finalizer from the groups of some lists, given by path; `found` groups have it so far."""

    lists: tuple[str, ...]
    found: int

    def __str__(self) -> str:
        return f"release groups from the finalizer {FINALIZER} ({self.found} now)"


class Retract(NamedTuple):
    """Remove outdated conditions from the status of groups; fields as in `ReleaseStep`."""

    lists: tuple[str, ...]
    found: int

    def __str__(self) -> str:
        return f"remove conditions that would become stale ({count(self.found, 'group')} now)"


Step = DeleteStep | Close | ReleaseStep | Retract


class UninstallPlan(NamedTuple):
    """The steps in order, and what stays, one line each."""

    steps: tuple[Step, ...]
    kept: tuple[str, ...]


def installed() -> list[Key]:
    """Return the keys of all objects that an install of any mode, and the processes, may create.

    Raises PodiumError.
    """
    leases = [
        Key("coordination.k8s.io/v1", "Lease", NAMESPACE, f"podium-{each}")
        for each in ("controller", "scheduler")
    ]
    return [*map(key_of, manifests("scheduler", None)), *leases]


def plan_uninstall(
    found: Sequence[Document],
    resources: Mapping[str, Sequence[Document]],
    native: Mapping[str, int],
    *,
    delete_groups: bool,
) -> UninstallPlan:
    """Plan the removal of the `installed` objects that were found.

    `resources` are custom resources by definition. `native` has the lists of native groups by path, each with
    the number of groups with outdated conditions. Definitions and their objects are kept unless
    `delete_groups` is set. Our namespace is kept if it holds some of them.
    """
    definitions = [each for each in found if each["kind"] == _DEFINITION]
    others = [each for each in found if each["kind"] not in (*REGISTRATIONS, *_LAST, _DEFINITION)]
    held = any(
        each["metadata"].get("namespace") == NAMESPACE for objects in resources.values() for each in objects
    )
    steps: list[Step] = [*_remove(found, REGISTRATIONS)]
    steps += [Close(key_of(each)) for each in definitions if _is_converted(each)]
    processes = [*_remove(found, ("Deployment",))]
    steps += processes
    groups = {
        objects_path(each): resources[each["metadata"]["name"]]
        for each in definitions
        if each["spec"]["names"]["kind"] == "PodGroup"
    }
    held_back = sum(is_protected(each) for path in groups for each in groups[path])
    numbers = dict(native)
    if not delete_groups:
        numbers |= {path: sum(outdated(each) is not None for each in groups[path]) for path in groups}
    # Until the processes are gone, they may write more than was found.
    if groups and (processes or held_back):
        steps.append(ReleaseStep(tuple(groups), held_back))
    if numbers and (processes or sum(numbers.values())):
        steps.append(Retract(tuple(numbers), sum(numbers.values())))
    if delete_groups:
        steps += _remove(found, (_DEFINITION,))
    rest = [each["kind"] for each in reversed(others) if each["kind"] not in ("Deployment", "Namespace")]
    steps += _remove(found, tuple(dict.fromkeys(rest)))
    kept = []
    if held and not delete_groups:
        kept = [
            f"{key_of(each)}, because it holds custom resources"
            for each in found
            if each["kind"] == "Namespace"
        ]
    else:
        steps += _remove(found, ("Namespace",))
    steps += _remove(found, _LAST)
    if not delete_groups:
        kept += [
            f"{key_of(each)} with {len(resources[each['metadata']['name']])} objects" for each in definitions
        ]
    return UninstallPlan(tuple(steps), tuple(kept))


def closed(definition: Document) -> Document:
    """Return a definition that serves only the stored version, without conversion."""
    spec = definition["spec"]
    versions = [{**each, "served": each["storage"]} for each in spec["versions"]]
    return {**definition, "spec": {**spec, "conversion": {"strategy": "None"}, "versions": versions}}


def is_protected(group: Document) -> bool:
    """Return whether a group has our finalizer."""
    return FINALIZER in group["metadata"].get("finalizers", ())


def outdated(group: Document) -> tuple[str, list[Document]] | None:
    """Return a field manager of ours with outdated conditions in a group, and its lasting conditions.

    None if there is no such manager. If there are two, the next call returns the other.
    """
    for manager in (CONTROLLER_MANAGER, SCHEDULER_MANAGER):
        fields = owned(group, manager, "status").get("f:status", {}).get("f:conditions", {})
        ours: list[Document] = chosen(group["status"]["conditions"], fields) if fields else []
        lasting = [each for each in ours if _lasts(each)]
        if lasting != ours:
            return manager, lasting
    return None


def _is_converted(definition: Document) -> bool:
    spec = definition["spec"]
    return spec.get("conversion", {}).get("strategy") == "Webhook" or any(
        each["served"] and not each["storage"] for each in spec["versions"]
    )


def _remove(found: Iterable[Document], kinds: Sequence[str]) -> Iterator[DeleteStep]:
    chosen = [each for kind in kinds for each in found if each["kind"] == kind]
    if chosen:
        yield DeleteStep(tuple((key_of(each), each["metadata"]["uid"]) for each in chosen))


def _lasts(condition: Document) -> bool:
    kind, status = condition["type"], condition.get("status")
    return kind in (INITIALLY_SCHEDULED, GROUP_SCHEDULED) and status == "True"
