"""The comparison finds each difference, and an explanation covers its own difference only."""

from typing import Any

import pytest
from tests.support.admission import explained, recording
from tests.support.admission.compare import compared

_HEADER = recording.Header(minor="1.37", version="1.37.0", seed=0, classes=[])
_GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"schedulingPolicy": {"basic": {}}, "priorityClassName": "gold"},
}
_REFUSED = {
    "code": 403,
    "reason": "Forbidden",
    "message": 'podgroups.scheduling.k8s.io "train" is forbidden: no PriorityClass with name gold was found',
}


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"code": 422}, ["code"], id="code"),
        pytest.param({"reason": "Invalid"}, ["reason"], id="reason"),
        pytest.param({"message": "no"}, ["message"], id="message"),
        pytest.param(
            {"code": 201, "reason": "", "message": "", "stored": _GROUP},
            ["allowed", "code", "reason", "message", "stored"],
            id="everything",
        ),
    ],
)
def test_a_difference_is_seen(answer: dict[str, Any], want: list[str]) -> None:
    """A group with an absent class is refused; any other answer of a server is a difference."""
    exchange = recording.Exchange(op=recording.Op.CREATE, object=_GROUP, **{**_REFUSED, **answer})
    (one,) = compared(_HEADER, recording.Recorded(namespace="team-a", exchanges=[exchange]))
    assert [difference.what for difference in one.unexplained] == want


_DIFF = 'Pod "a" is invalid: [one, spec: Forbidden: pod updates may not change fields other than x'
_NAMELESS = {"generateName": "made-"}
_TIME = 'PodGroup in version "v1beta1" cannot be handled as a PodGroup: parsing time "x" as "2006"'


@pytest.mark.parametrize(
    ("name", "metadata", "code", "answer", "ours"),
    [
        pytest.param("time-text", {}, 400, f'{_TIME}: cannot parse "x"', _TIME, id="time"),
        pytest.param(None, {}, 400, 'PodGroup: cannot parse "x"', "PodGroup", id="no time"),
        pytest.param("pod-spec-diff", {}, 422, f"{_DIFF}\n@@ -1,2 @@\n- 1\n]", f"{_DIFF}]", id="diff"),
        pytest.param(
            "pod-spec-diff", {}, 422, f"{_DIFF}\n@@ -1 @@\n", f"{_DIFF}\npriority: 1 -> 2", id="our words"
        ),
        pytest.param(None, {}, 422, f"{_DIFF}\n@@ -1 @@\n", f"two {_DIFF}", id="diff and another error"),
        pytest.param(
            "generated-name-in-text", _NAMELESS, 422, '"made-x2f4k" is bad', '"made-xxxxx" is bad', id="name"
        ),
        pytest.param(None, _NAMELESS, 422, '"made-x2f4k" is bad', '"made-xxxxx" is ill', id="another text"),
        pytest.param(None, _NAMELESS, 403, '"made-x2f4k" is bad', '"made-" is bad', id="prefix alone"),
        pytest.param(None, {"name": "a"}, 403, '"a" is bad', '"b" is bad', id="given name"),
        pytest.param(
            "generated-name-stored",
            _NAMELESS,
            201,
            {"metadata": {"name": "made-x2f4k", "generateName": "made-"}},
            {"metadata": {"generateName": "made-"}},
            id="stored name",
        ),
        pytest.param(
            None,
            _NAMELESS,
            201,
            {"metadata": {"name": "made-x2f4k"}, "spec": 1},
            {"metadata": {}, "spec": 2},
            id="stored name and more",
        ),
    ],
)
def test_an_explanation_excuses_one_thing(
    name: str | None, metadata: dict[str, Any], code: int, answer: Any, ours: Any
) -> None:
    """An unexplained difference in the same exchange stays a difference."""
    exchange = recording.Exchange(op=recording.Op.CREATE, object={"metadata": metadata}, code=code)
    what = "message" if isinstance(answer, str) else "stored"
    assert explained.explanation(exchange, what, answer, ours) == name
