"""PriorityClass resolution and preemption toleration, for admission and the audit."""

import pytest

from podium.api.core import PriorityClass
from podium.api.meta import ObjectMeta
from podium.api.priority import (
    NO_CLASS,
    PROPOSED_TOLERATION_PREFIX,
    TOLERATION_PREFIX,
    TOLERATION_PREFIXES,
    PreemptionToleration,
    Resolved,
    Unparsed,
    default_class,
    effective_policy,
    resolve,
    toleration,
)


def known(name: str, value: int | None = None, **fields: object) -> PriorityClass:
    annotations = fields.pop("annotations", None)
    assert annotations is None or isinstance(annotations, dict)
    return PriorityClass(metadata=ObjectMeta(name=name, annotations=annotations), value=value, **fields)  # type: ignore[arg-type]  # a test's own names


def index(*classes: PriorityClass) -> dict[str, PriorityClass]:
    return {found.metadata.name or "": found for found in classes}


@pytest.mark.parametrize(
    "name, want",
    [
        ("gold", Resolved("gold", 1000, "PreemptLowerPriority")),
        ("quiet", Resolved("quiet", 5, "Never")),
        ("zero", Resolved("zero", 0, "PreemptLowerPriority")),
        ("system-node-critical", Resolved("system-node-critical", 2_000_001_000, "PreemptLowerPriority")),
        ("system-other", None),
        ("nope", None),
        ("", NO_CLASS),
    ],
)
def test_resolve(name: str, want: Resolved | None) -> None:
    classes = index(known("gold", 1000), known("quiet", 5, preemptionPolicy="Never"), known("zero"))
    assert resolve(classes, name) == want


def test_an_object_of_a_system_class_wins_over_the_built_in_one() -> None:
    assert resolve(index(known("system-node-critical", 1)), "system-node-critical") == Resolved(
        "system-node-critical", 1, "PreemptLowerPriority"
    )


def test_of_several_defaults_the_smallest_value_wins_then_the_name() -> None:
    classes = index(
        known("a", 9, globalDefault=True),
        known("c", 3, globalDefault=True),
        known("b", 3, globalDefault=True),
        known("d", 1),
    )
    found = default_class(classes)
    assert found is not None
    assert found.metadata.name == "b"
    assert resolve(classes, "") == Resolved("b", 3, "PreemptLowerPriority")


def test_no_default() -> None:
    assert default_class(index(known("a", 9))) is None


@pytest.mark.parametrize("policy, want", [(None, "PreemptLowerPriority"), ("Never", "Never")])
def test_effective_policy(policy: str | None, want: str) -> None:
    assert effective_policy(policy) == want


MINIMUM, SECONDS = "minimum-preemptable-priority", "toleration-seconds"
# The value used for an annotation that does not parse.
HIGHEST = 1_000_000_001


@pytest.mark.parametrize(
    "minimum, seconds, want, unparsed",
    [
        ("10000", "3600", (10000, 3600), ()),
        ("10000", None, (10000, 0), ()),
        (None, "-1", (8001, -1), ()),
        ("+5", "007", (5, 7), ()),
        ("-2147483648", "0", (-(2**31), 0), ()),
        ("2147483648", None, (HIGHEST, 0), (MINIMUM,)),
        ("a", "1", (HIGHEST, 1), (MINIMUM,)),
        ("1", "1s", (1, -1), (SECONDS,)),
        ("1", "", (1, -1), (SECONDS,)),
        ("1", " 1", (1, -1), (SECONDS,)),
        ("1", "1_000", (1, -1), (SECONDS,)),
        ("1", "٣", (1, -1), (SECONDS,)),
        ("1", "9" * 30, (1, -1), (SECONDS,)),
        (None, "1h", (8001, -1), (SECONDS,)),
        ("a", "1h", (HIGHEST, -1), (MINIMUM, SECONDS)),
        (None, None, None, ()),
    ],
)
@pytest.mark.parametrize("prefix", TOLERATION_PREFIXES)
def test_toleration_reads_integers_as_go_does(
    minimum: str | None,
    seconds: str | None,
    want: tuple[int, int] | None,
    unparsed: tuple[str, ...],
    prefix: str,
) -> None:
    """A text that is no integer counts as the maximum that a user's class can grant."""
    given = {MINIMUM: minimum, SECONDS: seconds}
    annotations = {prefix + key: text for key, text in given.items() if text is not None}
    found = toleration(known("low", 8000, annotations=annotations))
    odd = tuple(Unparsed(prefix + key, annotations[prefix + key]) for key in unparsed)
    assert found == (None if want is None else PreemptionToleration(*want, odd))


@pytest.mark.parametrize(
    "released, proposed, want",
    [
        ({MINIMUM: "9", SECONDS: "1"}, {}, (9, 1)),
        ({}, {MINIMUM: "9", SECONDS: "1"}, (9, 1)),
        ({MINIMUM: "9"}, {SECONDS: "1"}, (9, 1)),
        ({MINIMUM: "9", SECONDS: "1"}, {MINIMUM: "10", SECONDS: "2"}, (9, 1)),
        ({SECONDS: "1"}, {MINIMUM: "10", SECONDS: "x"}, (10, 1)),
    ],
)
def test_each_toleration_annotation_is_read_under_the_plugins_prefix_then_under_the_proposals(
    released: dict[str, str], proposed: dict[str, str], want: tuple[int, int]
) -> None:
    annotations = {TOLERATION_PREFIX + key: text for key, text in released.items()}
    annotations |= {PROPOSED_TOLERATION_PREFIX + key: text for key, text in proposed.items()}
    assert toleration(known("low", 8, annotations=annotations)) == PreemptionToleration(*want)


@pytest.mark.parametrize(
    "found, want",
    [
        (PreemptionToleration(8001, -1), False),
        (PreemptionToleration(8002, -1), True),
        (PreemptionToleration(10000, 0), False),
        (PreemptionToleration(10000, 1), True),
    ],
)
def test_toleration_can_apply_only_between_value_and_minimum(found: PreemptionToleration, want: bool) -> None:
    assert found.can_apply(8000) is want
