"""Cases for the rules about preemption toleration."""

from tests.audit.builders import priority_class
from tests.audit.cases.case import Case

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
OTHER_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"

CASES = [
    Case(
        "no number",
        "toleration-unreadable",
        [priority_class("low", 1, annotations={f"{PREFIX}toleration-seconds": "1h"})],
        [("PriorityClass low", f"metadata.annotations[{PREFIX}toleration-seconds]", "'1h' is no integer")],
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
        "the proposal's prefix",
        "toleration-prefix",
        [priority_class("low", 8, annotations={f"{OTHER_PREFIX}toleration-seconds": "600; reboot"})],
        [
            (
                "PriorityClass low",
                f"metadata.annotations[{OTHER_PREFIX}toleration-seconds]",
                "the plugin does not read preemption-toleration.scheduling.sigs.k8s.io/",
            )
        ],
    ),
    Case(
        "the plugin's prefix",
        "toleration-prefix",
        [
            priority_class("low", 8, annotations={f"{PREFIX}toleration-seconds": "600"}),
        ],
    ),
]
