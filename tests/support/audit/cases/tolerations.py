"""Cases for the rules about preemption toleration."""

from tests.support.audit.builders import priority_class
from tests.support.audit.cases.case import Table, case

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
OTHER_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"

CASES = Table()
CASES.add(
    "toleration-unreadable",
    ("PriorityClass low", f"metadata.annotations[{PREFIX}toleration-seconds]"),
    case(
        "no number",
        [priority_class("low", 1, annotations={f"{PREFIX}toleration-seconds": "1h"})],
        "'1h' is not a 64-bit integer: the toleration has no end.",
    ),
    case(
        "no number under the proposal's prefix",
        [priority_class("low", 1, annotations={f"{OTHER_PREFIX}minimum-preemptable-priority": "1e4"})],
        (
            "PriorityClass low",
            f"metadata.annotations[{OTHER_PREFIX}minimum-preemptable-priority]",
            "'1e4' is not a 32-bit integer: during the toleration only system classes preempt.",
        ),
    ),
    case(
        "numbers",
        [
            priority_class(
                "low",
                1,
                annotations={
                    f"{PREFIX}toleration-seconds": "-1",
                    f"{PREFIX}minimum-preemptable-priority": "10000",
                },
            )
        ],
    ),
    case("other annotations", [priority_class("low", 1, annotations={"note": "1h"})]),
)
CASES.add(
    "toleration-without-effect",
    ("PriorityClass low", f"metadata.annotations[{PREFIX}minimum-preemptable-priority]"),
    case(
        "seconds alone",
        [priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "600"})],
        "every preemptor of value 8 has at least 9",
    ),
    case(
        "a minimum alone",
        [priority_class("low", 8, annotations={f"{PREFIX}minimum-preemptable-priority": "100"})],
        ("PriorityClass low", f"metadata.annotations[{PREFIX}toleration-seconds]", "it lasts 0 seconds"),
    ),
    case(
        "a minimum above and seconds",
        [
            priority_class(
                "low",
                8,
                annotations={
                    f"{PREFIX}toleration-seconds": "600",
                    f"{PREFIX}minimum-preemptable-priority": "10",
                },
            )
        ],
    ),
    case(
        "what does not parse is another rule's",
        [priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "x"})],
    ),
    case(
        "a minimum alone under the proposal's prefix",
        [priority_class("low", 8, annotations={f"{OTHER_PREFIX}toleration-seconds": "0"})],
        (
            "PriorityClass low",
            f"metadata.annotations[{OTHER_PREFIX}toleration-seconds]",
            "it lasts 0 seconds",
        ),
    ),
)
CASES.add(
    "toleration-prefix",
    ("PriorityClass low", f"metadata.annotations[{OTHER_PREFIX}toleration-seconds]"),
    case(
        "both prefixes, and they differ",
        [
            priority_class(
                "low",
                8,
                annotations={
                    f"{PREFIX}toleration-seconds": "600",
                    f"{OTHER_PREFIX}toleration-seconds": "60; reboot",
                },
            )
        ],
        f"is '60; reboot', but {PREFIX}toleration-seconds is '600', which is used.",
    ),
    case(
        "both prefixes, and they agree",
        [
            priority_class(
                "low",
                8,
                annotations={
                    f"{PREFIX}toleration-seconds": "600",
                    f"{OTHER_PREFIX}toleration-seconds": "600",
                },
            )
        ],
    ),
    *(
        case(
            f"one prefix: {prefix}",
            [priority_class("low", 8, annotations={f"{prefix}toleration-seconds": "600"})],
        )
        for prefix in (PREFIX, OTHER_PREFIX)
    ),
)
