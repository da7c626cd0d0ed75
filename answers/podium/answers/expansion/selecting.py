"""The labels by which pods are selected: the other labels may be left out of a dump.

Budgets, affinity between pods and spreading read labels of pods (and of namespaces). A label that no object
in a cluster selects by can be left out. If a pod that is added to the dump later selects by such a label, its
matches are unknown, and the report says so.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from podium.api.core import PodDisruptionBudget, PodSpec
from podium.api.meta import LabelSelector
from podium.api.schedulable import PodAffinity, PodAffinityTerm, Schedulable, SchedulableSpec


def selected_keys(objects: Iterable[Any]) -> frozenset[str]:
    """Return the keys of labels of pods and namespaces that any of these objects selects by."""
    keys: set[str] = set()
    for value in objects:
        if isinstance(value, PodDisruptionBudget):
            keys.update(_keys(value.spec.selector if value.spec is not None else None))
        elif isinstance(value, Schedulable):
            keys.update(key for _, key in selections(value.spec))
    return frozenset(keys)


def selections(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Yield each key by which a pod selects other pods or namespaces, with the selecting field."""
    if not isinstance(spec, SchedulableSpec):
        return
    for index, constraint in enumerate(spec.topologySpreadConstraints or ()):
        path = f"topologySpreadConstraints[{index}]"
        for key in (*_keys(constraint.labelSelector), *(constraint.matchLabelKeys or ())):
            yield path, key
    affinity = spec.affinity
    if affinity is None:
        return
    for path, half in (("podAffinity", affinity.podAffinity), ("podAntiAffinity", affinity.podAntiAffinity)):
        for place, term in _terms(half):
            keys = (*_keys(term.labelSelector), *_keys(term.namespaceSelector))
            for key in (*keys, *(term.matchLabelKeys or ()), *(term.mismatchLabelKeys or ())):
                yield f"affinity.{path}.{place}", key


def _terms(half: PodAffinity | None) -> Iterator[tuple[str, PodAffinityTerm]]:
    if half is None:
        return
    for index, term in enumerate(half.requiredDuringSchedulingIgnoredDuringExecution or ()):
        yield f"requiredDuringSchedulingIgnoredDuringExecution[{index}]", term
    for index, preferred in enumerate(half.preferredDuringSchedulingIgnoredDuringExecution or ()):
        if preferred.podAffinityTerm is not None:
            yield f"preferredDuringSchedulingIgnoredDuringExecution[{index}]", preferred.podAffinityTerm


def _keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.matchLabels or ()
        yield from (requirement.key for requirement in selector.matchExpressions or ())
