"""Cases for the rules about preemption toleration."""

from tests.support.audit.builders import priority_class
from tests.support.audit.cases.case import Case

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
OTHER_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"

CASES = [
    Case(
        "no number",
        "toleration-unreadable",
        [priority_class("low", 1, annotations={f"{PREFIX}toleration-seconds": "1h"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{PREFIX}toleration-seconds]",
                "'1h' is not a 64-bit integer: the toleration has no end.",
            )
        ],
    ),
    Case(
        "no number under the proposal's prefix",
        "toleration-unreadable",
        [priority_class("low", 1, annotations={f"{OTHER_PREFIX}minimum-preemptable-priority": "1e4"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{OTHER_PREFIX}minimum-preemptable-priority]",
                "'1e4' is not a 32-bit integer: during the toleration only system classes preempt.",
            )
        ],
    ),
    Case(
        "numbers",
        "toleration-unreadable",
        [
            priority_class(
                "low",
                1,
                annotations={
                    f"{PREFIX}toleration-seconds": "-1",
                    f"{PREFIX}minimum-preemptable-priority": "10000",
                },
            ),
        ],
    ),
    Case(
        "other annotations", "toleration-unreadable", [priority_class("low", 1, annotations={"note": "1h"})]
    ),
    Case(
        "seconds alone",
        "toleration-without-effect",
        [priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "600"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{PREFIX}minimum-preemptable-priority]",
                "every preemptor of value 8 has at least 9",
            )
        ],
    ),
    Case(
        "a minimum alone",
        "toleration-without-effect",
        [priority_class("low", 8, annotations={f"{PREFIX}minimum-preemptable-priority": "100"})],
        [("PriorityClass low", f"metadata.annotations[{PREFIX}toleration-seconds]", "it lasts 0 seconds")],
    ),
    Case(
        "a minimum above and seconds",
        "toleration-without-effect",
        [
            priority_class(
                "low",
                8,
                annotations={
                    f"{PREFIX}toleration-seconds": "600",
                    f"{PREFIX}minimum-preemptable-priority": "10",
                },
            ),
        ],
    ),
    Case(
        "what does not parse is another rule's",
        "toleration-without-effect",
        [
            priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "x"}),
        ],
    ),
    Case(
        "a minimum alone under the proposal's prefix",
        "toleration-without-effect",
        [priority_class("low", 8, annotations={f"{OTHER_PREFIX}toleration-seconds": "0"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{OTHER_PREFIX}toleration-seconds]",
                "it lasts 0 seconds",
            )
        ],
    ),
    Case(
        "both prefixes, and they differ",
        "toleration-prefix",
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
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{OTHER_PREFIX}toleration-seconds]",
                f"is '60; reboot', but {PREFIX}toleration-seconds is '600', which is used.",
            )
        ],
    ),
    Case(
        "both prefixes, and they agree",
        "toleration-prefix",
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
        Case(
            f"one prefix: {prefix}",
            "toleration-prefix",
            [priority_class("low", 8, annotations={f"{prefix}toleration-seconds": "600"})],
        )
        for prefix in (PREFIX, OTHER_PREFIX)
    ),
]
