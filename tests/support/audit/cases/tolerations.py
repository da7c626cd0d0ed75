"""Cases for the rules about preemption toleration."""

from tests.support.audit.builders import priority_class
from tests.support.audit.cases.case import Case, Table, case

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
OTHER_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"

MINIMUM, SECONDS = f"{PREFIX}minimum-preemptable-priority", f"{PREFIX}toleration-seconds"
OTHER_MINIMUM, OTHER_SECONDS = (name.replace(PREFIX, OTHER_PREFIX) for name in (MINIMUM, SECONDS))


def of_class(name: str, annotations: dict[str, str], *found: str | tuple[str, str, str]) -> Case:
    """Make a case of one class, low, with these annotations."""
    return case(name, [priority_class("low", 8, annotations=annotations)], *found)


CASES = Table()
CASES.add(
    "toleration-unreadable",
    ("PriorityClass low", f"metadata.annotations[{SECONDS}]"),
    of_class(
        "no number",
        {SECONDS: "1h"},
        "'1h' is not a 64-bit integer: the toleration has no end.",
    ),
    of_class(
        "no number under the proposal's prefix",
        {OTHER_MINIMUM: "1e4"},
        (
            "PriorityClass low",
            f"metadata.annotations[{OTHER_MINIMUM}]",
            "'1e4' is not a 32-bit integer: during the toleration only system classes preempt.",
        ),
    ),
    of_class(
        "numbers",
        {SECONDS: "-1", MINIMUM: "10000"},
    ),
    of_class("other annotations", {"note": "1h"}),
)
CASES.add(
    "toleration-without-effect",
    ("PriorityClass low", f"metadata.annotations[{MINIMUM}]"),
    of_class(
        "seconds alone",
        {SECONDS: "600"},
        "every preemptor of value 8 has at least 9",
    ),
    of_class(
        "a minimum alone",
        {MINIMUM: "100"},
        ("PriorityClass low", f"metadata.annotations[{SECONDS}]", "it lasts 0 seconds"),
    ),
    of_class(
        "a minimum above and seconds",
        {SECONDS: "600", MINIMUM: "10"},
    ),
    of_class(
        "what does not parse is another rule's",
        {SECONDS: "x"},
    ),
    of_class(
        "a minimum alone under the proposal's prefix",
        {OTHER_SECONDS: "0"},
        (
            "PriorityClass low",
            f"metadata.annotations[{OTHER_SECONDS}]",
            "it lasts 0 seconds",
        ),
    ),
)
CASES.add(
    "toleration-prefix",
    ("PriorityClass low", f"metadata.annotations[{OTHER_SECONDS}]"),
    of_class(
        "both prefixes, and they differ",
        {SECONDS: "600", OTHER_SECONDS: "60; reboot"},
        f"is '60; reboot', but {SECONDS} is '600', which is used.",
    ),
    of_class(
        "both prefixes, and they agree",
        {SECONDS: "600", OTHER_SECONDS: "600"},
    ),
    *(
        of_class(
            f"one prefix: {prefix}",
            {f"{prefix}toleration-seconds": "600"},
        )
        for prefix in (PREFIX, OTHER_PREFIX)
    ),
)
