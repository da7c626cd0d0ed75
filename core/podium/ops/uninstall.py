"""What an uninstall does, as values: in which order, what is kept.

Registration goes first, so that no write is refused for want of an answer, then v1alpha2, which cannot be
read without one. The processes go next and are waited for: the reconciler would put the finalizers back. The
policy that limits what the scheduler may delete goes last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.api.groups import FINALIZER
from podium.ops.install import REGISTRATIONS, Document, Key, key_of, manifests, objects_path

NAMESPACE = "podium-system"

_DEFINITION = "CustomResourceDefinition"
_LAST = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")


class Remove(NamedTuple):
    """Delete some objects and wait until they are gone, and what they made."""

    objects: tuple[tuple[Key, str], ...]  # with their UIDs

    def __str__(self) -> str:
        return "\n".join(f"delete {key}" for key, _ in self.objects)


class Close(NamedTuple):
    """Serve the stored version of a custom resource only, which needs no conversion."""

    key: Key

    def __str__(self) -> str:
        return f"serve {self.key} in its stored version only"


class Release(NamedTuple):
    """Take our finalizer from some groups, each by the path of its URL."""

    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"release {len(self.paths)} groups from the finalizer {FINALIZER}"


Step = Remove | Close | Release


class Plan(NamedTuple):
    """What to do in this order, and what stays, a line each."""

    steps: tuple[Step, ...]
    kept: tuple[str, ...]


def installed() -> list[Key]:
    """Name all that an install of any mode, and the processes, may have made. Raises PodiumError."""
    leases = [
        Key("coordination.k8s.io/v1", "Lease", NAMESPACE, f"podium-{each}")
        for each in ("controller", "scheduler")
    ]
    return [*map(key_of, manifests("scheduler", None)), *leases]


def plan(
    found: Sequence[Document], resources: Mapping[str, Sequence[Document]], *, delete_groups: bool
) -> Plan:
    """Plan to take away what was found of `installed`; `resources` are the custom resources by definition.

    Definitions and their objects are kept unless `delete_groups`, and our namespace if it holds some.
    """
    definitions = [each for each in found if each["kind"] == _DEFINITION]
    others = [each for each in found if each["kind"] not in (*REGISTRATIONS, *_LAST, _DEFINITION)]
    held = any(
        each["metadata"].get("namespace") == NAMESPACE for objects in resources.values() for each in objects
    )
    steps: list[Step] = [*_remove(found, REGISTRATIONS)]
    steps += [Close(key_of(each)) for each in definitions if _is_converted(each)]
    steps += _remove(found, ("Deployment",))
    steps += _release(definitions, resources)
    if delete_groups:
        steps += _remove(found, (_DEFINITION,))
    rest = [each["kind"] for each in reversed(others) if each["kind"] not in ("Deployment", "Namespace")]
    steps += _remove(found, tuple(dict.fromkeys(rest)))
    kept = []
    if held and not delete_groups:
        kept = [
            f"{key_of(each)}, for it holds custom resources" for each in found if each["kind"] == "Namespace"
        ]
    else:
        steps += _remove(found, ("Namespace",))
    steps += _remove(found, _LAST)
    if not delete_groups:
        kept += [
            f"{key_of(each)} with {len(resources[each['metadata']['name']])} objects" for each in definitions
        ]
    return Plan(tuple(steps), tuple(kept))


def closed(definition: Document) -> Document:
    """Give a definition that converts nothing and serves what is stored."""
    spec = definition["spec"]
    versions = [{**each, "served": each["storage"]} for each in spec["versions"]]
    return {**definition, "spec": {**spec, "conversion": {"strategy": "None"}, "versions": versions}}


def _is_converted(definition: Document) -> bool:
    spec = definition["spec"]
    return spec.get("conversion", {}).get("strategy") == "Webhook" or any(
        each["served"] and not each["storage"] for each in spec["versions"]
    )


def _remove(found: Iterable[Document], kinds: Sequence[str]) -> Iterator[Remove]:
    chosen = [each for kind in kinds for each in found if each["kind"] == kind]
    if chosen:
        yield Remove(tuple((key_of(each), each["metadata"]["uid"]) for each in chosen))


def _release(
    definitions: Sequence[Document], resources: Mapping[str, Sequence[Document]]
) -> Iterator[Release]:
    paths = [
        f"{objects_path(definition, each['metadata']['namespace'])}/{each['metadata']['name']}"
        for definition in definitions
        for each in resources[definition["metadata"]["name"]]
        if FINALIZER in each["metadata"].get("finalizers", ())
    ]
    if paths:
        yield Release(tuple(paths))
