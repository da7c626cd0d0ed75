"""Each explanation covers exactly what it describes, and docs/differences.md has each reason."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.parity.case import Case, group
from tests.support.parity.compare import Exchange
from tests.support.parity.explained import EXPLAINED, explained
from tests.support.parity.sides import Answer, Way

_DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences.md"
_CREATED = Case("G4", "a class", "PodGroup", group(priorityClassName="gold"))


def _stored(**spec: Any) -> Answer:
    return Answer(code=201, object={"kind": "PodGroup", "metadata": {"name": "a"}, "spec": spec})


def _refused(code: int, message: str, *causes: tuple[str, str]) -> Answer:
    reason = {403: "Forbidden", 422: "Invalid", 500: "InternalError"}[code]
    return Answer(code=code, reason=reason, message=message, causes=causes)


_FORBIDDEN = 'podgroups.scheduling.k8s.io "a" is forbidden: no PriorityClass with name gold was found'
_PREFIX = 'admission webhook "groups.podium.dev" denied the request: '
_HEAD = 'PodGroup.scheduling.k8s.io "a" is invalid: '
_IMMUTABLE = "Invalid value: null: field is immutable"
_UNLIKE = {
    "one allows, the other forbids": (_stored(priority=1), _refused(403, _PREFIX + _FORBIDDEN)),
    "one forbids, the other allows": (_refused(403, _FORBIDDEN), _stored(priority=1)),
    "another text": (
        _refused(403, _FORBIDDEN),
        _refused(403, _PREFIX + _FORBIDDEN.replace("gold", "silver")),
    ),
    "another code": (_refused(403, _FORBIDDEN), _refused(422, _HEAD, ("spec.priorityClassName", "Invalid"))),
    "another webhook's word": (
        _refused(403, _FORBIDDEN),
        _refused(403, 'admission webhook "example.com" denied the request: ' + _FORBIDDEN),
    ),
    "an internal error": (
        _refused(422, _HEAD, ("spec", "Required value")),
        _refused(500, "failed calling webhook"),
    ),
    "another priority": (_stored(priority=1), _stored(priority=2)),
    "no class": (_stored(priorityClassName="gold"), _stored()),
    "another mode": (_stored(disruptionMode={"all": {}}), _stored(disruptionMode={"single": {}})),
    "another field": (
        _refused(422, _HEAD, ("spec.priority", _IMMUTABLE)),
        _refused(422, _HEAD, ("spec.disruptionMode", "Invalid value: field is immutable")),
    ),
    "one of two fields": (
        _refused(422, _HEAD, ("spec.priority", _IMMUTABLE), ("spec.disruptionMode", _IMMUTABLE)),
        _refused(422, _HEAD, ("spec.priority", "Invalid value: field is immutable")),
    ),
    "a field more": (
        _refused(422, _HEAD, ("spec.priority", _IMMUTABLE)),
        _refused(422, _HEAD, ("spec.priority", _IMMUTABLE), ("spec.disruptionMode", _IMMUTABLE)),
    ),
}


@pytest.mark.parametrize(("native", "podium"), _UNLIKE.values(), ids=_UNLIKE)
@pytest.mark.parametrize("way", Way)
def test_nothing_explains_a_real_difference(way: Way, native: Answer, podium: Answer) -> None:
    """An explanation applies to every way of writing."""
    exchange = Exchange(case=_CREATED, way=way, dry=False, native=native, podium=podium)
    rest, names = explained(exchange)
    assert not rest.equal, names


def test_a_webhooks_word_is_upstreams_behind_a_prefix() -> None:
    podium = _refused(403, _PREFIX + _FORBIDDEN, ("spec.priorityClassName", "no PriorityClass"))
    exchange = Exchange(
        case=_CREATED, way=Way.CREATE, dry=False, native=_refused(403, _FORBIDDEN), podium=podium
    )
    rest, names = explained(exchange)
    assert rest.equal
    assert names == ["webhook-prefix", "webhook-causes"]


def test_every_reason_is_documented() -> None:
    """docs/differences.md lists exactly these explanations."""
    text = _DIFFERENCES.read_text(encoding="utf-8")
    listed = re.findall(r"^\* \*\*([a-z-]+)\*\*", text, re.MULTILINE)
    assert listed == [explanation.name for explanation in EXPLAINED] + ["strategic-patch"]
