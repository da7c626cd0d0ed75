"""The closed list of known differences from kube-scheduler, documented in docs/differences.md.

Each is a change of the cluster that removes what kube-scheduler overlooks. With the change, Podium answers as
kube-scheduler does. A difference that remains has another cause. A test requires that the recordings contain
all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.preemption.differential.generator import ROLE_LABEL, Object
from tests.support.preemption.differential.recording import Recorded


class Explanation(NamedTuple):
    """A named difference of one minor; `without` returns the changed cluster, None if it does not apply."""

    name: str
    minor: str
    without: Callable[[Recorded, Sequence[Object]], list[Object] | None]


def _skipped_anti_affinity(recorded: Recorded, objects: Sequence[Object]) -> list[Object] | None:
    """Return the case without the anti-affinity of potential victims, if that is all it has."""
    groups = {_name(each): each["spec"]["priority"] for each in objects if each["kind"] == "PodGroup"}
    pods = [each for each in objects if each["kind"] == "Pod"]
    pending = [pod for pod in pods if ROLE_LABEL in pod["metadata"].get("labels", ())]
    wants = groups.get(recorded.preemptor[1])
    hostile = {_name(pod): _priority(pod, groups) for pod in pods if "podAntiAffinity" in _affinity(pod)}
    has_affinity = any(_affinity(pod).keys() & {"podAffinity", "podAntiAffinity"} for pod in pending)
    if wants is None or has_affinity or not hostile or max(hostile.values()) >= wants:
        return None
    return [_peaceful(each) if _name(each) in hostile else each for each in objects]


def _peaceful(pod: Object) -> Object:
    return {**pod, "spec": {**pod["spec"], "affinity": None}}


def _affinity(pod: Object) -> Mapping[str, Any]:
    affinity: Mapping[str, Any] = pod["spec"].get("affinity") or {}
    return affinity


def _priority(pod: Object, groups: Mapping[str, int]) -> int:
    named = pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")
    priority: int = groups.get(named, pod["spec"]["priority"])
    return priority


def _name(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name


EXPLAINED = (Explanation("skipped-anti-affinity", "1.37", _skipped_anti_affinity),)
