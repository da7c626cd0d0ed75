"""Faults of the kind that a review finds, each planted into the product: the simulation has to find them."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from podium.controllers.writer import Writer
from podium.errors import PodiumError
from podium.kube.reflector import Reflector
from podium.schedulerplugin.live.evictor import _PreemptionTask
from podium.schedulerplugin.live.writes import Writes, _path
from podium.schedulerplugin.scheduling.live_engine import LiveEngine


class Planted(NamedTuple):
    """A fault: `attribute` of `owner` is replaced by what `make` returns for it."""

    name: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]


def _nothing(_original: Any) -> Any:
    return lambda *_arguments, **_named: None


def _bound_once(_original: Any) -> Any:
    async def bind(self: Any, pod: Any, node: str) -> None:
        document = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": {"kind": "Node", "name": node}}
        with suppress(PodiumError):
            await self._send("POST", f"{_path(pod)}/binding", document)

    return bind


def _deleted_once(_original: Any) -> Any:
    async def delete(self: Any, pod: Any) -> None:
        with suppress(PodiumError):
            await self.remove(_path(pod), pod.uid)

    return delete


def _first_only(original: Any) -> Any:
    async def delete_all(self: Any) -> Any:
        unit, *_ = self._evict.units
        self._evict = self._evict._replace(units=(unit._replace(pods=unit.pods[:1]),))
        return await original(self)

    return delete_all


def _unless_cleared(original: Any) -> Any:
    async def nominate(self: Any, pod: Any, node: str | None, condition: Any) -> None:
        if node is not None:
            await original(self, pod, node, condition)

    return nominate


def _not_there(_original: Any) -> Any:
    async def perform(_self: Any, _action: Any) -> int:
        return 0

    return perform


PLANTED = (
    Planted("the planner forgets a bind until the cache shows it", LiveEngine, "assume", _nothing),
    Planted("a bind without an answer counts as done", Writes, "bind", _bound_once),
    Planted("a deletion without an answer counts as done", Writes, "delete", _deleted_once),
    Planted("the first pod of a unit is deleted only", _PreemptionTask, "_delete_all", _first_only),
    Planted("a nomination is never cleared", Writes, "nominate", _unless_cleared),
    Planted("deletions do not reach the cache", Reflector, "_take_deletion", _nothing),
    Planted("changes do not reach the cache", Reflector, "_take_object", _nothing),
    Planted("conditions of groups are never written", Writer, "perform", _not_there),
)
