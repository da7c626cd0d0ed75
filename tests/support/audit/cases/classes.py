"""Cases for the rules about PriorityClasses."""

from tests.support.audit.builders import (
    group_template,
    node,
    owner,
    pod,
    pod_group,
    priority_class,
    stored,
    workload,
)
from tests.support.audit.cases.case import GOLD, SILVER, SYSTEM, Case

from podium.cluster.state import Readable

DEFAULT = priority_class("medium", 5000, default=True)
PLAIN = priority_class("plain", 0, default=True)
GILT = priority_class("gilt", 1000)
NAMES_GOLD = pod("a", priority=1000, class_name="gold")
# A Helm chart or a folder may have objects of a cluster, and a dump some manifests.
MIXED_INPUTS: list[tuple[str, str, list[Readable]]] = [
    ("manifests beside an exported class", "is not in the input", [NAMES_GOLD, *stored(SILVER)]),
    ("manifests beside an exported pod", "is not in the input", [NAMES_GOLD, SILVER, *stored(pod("b"))]),
    ("manifests beside a Node", "is not in the input", [NAMES_GOLD, SILVER, *stored(node())]),
    ("manifests beside a system class", "is not in the input", [NAMES_GOLD, SYSTEM]),
    ("manifests beside exported system classes", "is not in the input", [NAMES_GOLD, *stored(SYSTEM, GILT)]),
    ("an exported pod beside classes", "is not in the input", [*stored(NAMES_GOLD), SILVER]),
    ("an exported pod and one of two classes", "is not in the input", [*stored(NAMES_GOLD, GILT), SILVER]),
    ("a dump", "does not exist", stored(NAMES_GOLD, SILVER)),
    (
        "a dump and a manifest that names the class",
        "does not exist",
        [NAMES_GOLD, *stored(SYSTEM, pod("b"), pod("c"))],
    ),
    ("a dump and a class", "does not exist", [SILVER, *stored(NAMES_GOLD, SYSTEM, GILT)]),
]

CASES = [
    Case(
        "a deleted class",
        "class-missing",
        stored(
            SILVER,
            pod("a", priority=1000, class_name="gold"),
            pod_group(priority=1000, class_name="gold"),
            pod("b", priority=500, class_name="silver"),
        ),
        [
            (
                "PriorityClass gold",
                "",
                "named by 1 live pod (team-a/a) and 1 PodGroup (team-a/train), with priority 1000",
            )
        ],
    ),
    Case(
        "a class that manifests lack",
        "class-missing",
        [
            SILVER,
            pod("a", priority=1000, class_name="gold"),
            pod_group(priority=1000, class_name="gold"),
            pod("b", priority=500, class_name="silver"),
        ],
        [
            (
                "PriorityClass gold",
                "",
                "it is not in the input, but it is named by 1 pod (team-a/a) and 1 PodGroup (team-a/train)",
            )
        ],
    ),
    *(
        Case(
            name,
            "class-missing",
            [*objects],
            [("PriorityClass gold", "", f"it {problem}, but it is named by")],
        )
        for name, problem, objects in MIXED_INPUTS
    ),
    Case("a finished pod had it", "class-missing", [pod("a", class_name="gold", phase="Succeeded")]),
    Case(
        "system classes are always there",
        "class-missing",
        [pod("a", class_name="system-node-critical", priority=2000001000)],
    ),
    Case("no class at all", "class-missing", [pod("a"), pod_group()]),
    Case(
        "a class was recreated",
        "class-value-changed",
        [
            GOLD,
            *(pod(f"p-{value}", priority=value, class_name="gold") for value in (1000, 500, 7)),
            pod_group(priority=500, class_name="gold"),
            owner("Deployment", "web", api_version="apps/v1"),
        ],
        [
            (
                "PriorityClass gold",
                "value",
                "its value is 1000, but other priorities, 7 and 500, are stored by 2 live pods",
            )
        ],
    ),
    Case(
        "an integer that was never stored",
        "class-value-changed",
        [GOLD, pod("a", priority=None, class_name="gold")],
    ),
    Case("an integer that agrees", "class-value-changed", [GOLD, pod("a", priority=1000, class_name="gold")]),
    Case(
        "a nil value is 0",
        "class-value-changed",
        [priority_class("zero"), pod("a", priority=0, class_name="zero")],
    ),
    Case("a class that is gone", "class-value-changed", [pod("a", priority=1, class_name="gold")]),
    Case(
        "three defaults",
        "default-class-duplicate",
        [
            priority_class("b", 5, default=True),
            priority_class("a", 5, default=True),
            priority_class("c", 9, default=True),
        ],
        [
            ("PriorityClass b", "globalDefault", "beside a (5), which is used instead of its 5"),
            ("PriorityClass c", "globalDefault", "beside a (5), which is used instead of its 9"),
        ],
    ),
    Case(
        "the default class came after the pods",
        "default-class-newer",
        [DEFAULT, pod("a"), pod("b"), pod("c", class_name="medium", priority=5000)],
        [
            (
                "PriorityClass medium",
                "globalDefault",
                (
                    "the default class medium is 5000, but 2 live pods (team-a/a, team-a/b) without a "
                    "class store priority 0. Each replacement gets 5000 and can preempt another of them."
                ),
            )
        ],
    ),
    Case(
        "one pod is older than the default class",
        "default-class-newer",
        [DEFAULT, pod("a")],
        [("PriorityClass medium", "globalDefault", "stores priority 0. Each replacement gets 5000.")],
    ),
    Case(
        "the default class never preempts",
        "default-class-newer",
        [priority_class("medium", 5000, default=True, policy="Never"), pod("a"), pod("b")],
        [("PriorityClass medium", "globalDefault", "store priority 0. Each replacement gets 5000.")],
    ),
    Case(
        "the default class is lower than older pods",
        "default-class-newer",
        [priority_class("spare", -10, default=True), pod("a"), pod("b")],
        [("PriorityClass spare", "globalDefault", "Each replacement gets -10, which is lower.")],
    ),
    Case("older pods have the default's value", "default-class-newer", [PLAIN, pod("a"), pod("b")]),
    Case(
        "no controller replaces older pods",
        "default-class-newer",
        [
            *(DEFAULT, pod("bare", owner=None), pod("static", owner=("v1", "Node", "node-0"))),
            *(pod("gone", terminating=True), pod("ended", phase="Succeeded"), pod("new", priority=None)),
        ],
    ),
    Case(
        "the template of older pods names a class by now",
        "default-class-newer",
        [DEFAULT, pod("a"), owner(class_name="gold")],
    ),
    Case("there is no default class", "default-class-newer", [GOLD, pod("a"), pod("b")]),
    Case(
        "a system class is the default",
        "default-class-system",
        [priority_class("system-cluster-critical", 2_000_000_000, default=True)],
        [
            (
                "PriorityClass system-cluster-critical",
                "globalDefault",
                "so each new pod without a class gets 2000000000",
            )
        ],
    ),
    Case("a user class is the default", "default-class-system", [priority_class("b", 5, default=True), GOLD]),
    Case("one default", "default-class-duplicate", [priority_class("b", 5, default=True), GOLD]),
    Case(
        "no default, and a group mixes",
        "default-class-missing",
        [GOLD, pod_group(priority=1000, class_name="gold"), pod("a", group="train")],
        [
            (
                "PriorityClass (default)",
                "globalDefault",
                "the others have priority 0: team-a/train",
            )
        ],
    ),
    Case(
        "no default, and every group is of one mind",
        "default-class-missing",
        [
            GOLD,
            pod_group(priority=1000, class_name="gold"),
            pod("a", group="train", class_name="gold", priority=1000),
            pod_group("plain"),
            pod("b", group="plain"),
            pod("lone"),
        ],
    ),
    Case(
        "a default, and a group mixes",
        "default-class-missing",
        [
            priority_class("standard", 1, default=True),
            pod_group(class_name="gold"),
            pod("a", group="train"),
        ],
    ),
    Case(
        "a class that no object names",
        "class-unused",
        [
            GOLD,
            SILVER,
            priority_class("by-template"),
            priority_class("by-workload"),
            priority_class("by-group"),
            priority_class("standard", default=True),
            priority_class("system-node-critical", 2000001000),
            pod("a", class_name="silver", priority=500),
            owner(class_name="by-template"),
            workload(group_template(class_name="by-workload")),
            pod_group(class_name="by-group"),
        ],
        [("PriorityClass gold", "", "no live pod, group or template names it.")],
    ),
    Case("every class is named", "class-unused", [GOLD, pod("a", class_name="gold", priority=1000)]),
    Case(
        "a class only finished pods name",
        "class-unused",
        [GOLD, pod("a", class_name="gold", priority=1000, phase="Succeeded")],
        [("PriorityClass gold", "", "no live pod")],
    ),
    Case(
        "half are at the top",
        "top-class-share",
        [
            GOLD,
            SILVER,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(10)),
            *(pod(f"low-{index}", class_name="silver", priority=500) for index in range(10)),
            *(
                pod(f"system-{index}", class_name="system-node-critical", priority=2000001000)
                for index in range(9)
            ),
        ],
        [
            (
                "PriorityClass gold",
                "",
                "50% of pods (10 of 20, system classes left out)",
            )
        ],
    ),
    Case(
        "fewer than half are at the top",
        "top-class-share",
        [
            GOLD,
            SILVER,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(10)),
            *(pod(f"low-{index}", class_name="silver", priority=500) for index in range(11)),
        ],
    ),
    Case("few pods", "top-class-share", [GOLD, SILVER, pod("top", class_name="gold", priority=1000)]),
    Case(
        "one level",
        "top-class-share",
        [
            GOLD,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(30)),
        ],
    ),
]
