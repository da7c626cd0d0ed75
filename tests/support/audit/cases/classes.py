"""Cases for the rules about PriorityClasses."""

from tests.support.audit.builders import (
    group_template,
    member,
    node,
    owner,
    pod,
    pod_group,
    priority_class,
    stored,
    workload,
)
from tests.support.audit.cases.case import GOLD, SILVER, SYSTEM, Table, case

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

CASES = Table()
CASES.add(
    "class-missing",
    ("PriorityClass gold", ""),
    case(
        "a deleted class",
        stored(
            SILVER,
            pod("a", priority=1000, class_name="gold"),
            pod_group(priority=1000, class_name="gold"),
            pod("b", priority=500, class_name="silver"),
        ),
        "named by 1 live pod (team-a/a) and 1 PodGroup (team-a/train), with priority 1000",
    ),
    case(
        "a class that manifests lack",
        [
            SILVER,
            pod("a", priority=1000, class_name="gold"),
            pod_group(priority=1000, class_name="gold"),
            pod("b", priority=500, class_name="silver"),
        ],
        "it is not in the input, but it is named by 1 pod (team-a/a) and 1 PodGroup (team-a/train)",
    ),
    *(case(name, [*objects], f"it {problem}, but it is named by") for name, problem, objects in MIXED_INPUTS),
    case("a finished pod had it", [pod("a", class_name="gold", phase="Succeeded")]),
    case(
        "system classes are always there", [pod("a", class_name="system-node-critical", priority=2000001000)]
    ),
    case("no class at all", [pod("a"), pod_group()]),
)
CASES.add(
    "class-value-changed",
    ("PriorityClass gold", "value"),
    case(
        "a class was recreated",
        [
            GOLD,
            *(pod(f"p-{value}", priority=value, class_name="gold") for value in (1000, 500, 7)),
            pod_group(priority=500, class_name="gold"),
            owner("Deployment", "web", api_version="apps/v1"),
        ],
        "its value is 1000, but other priorities, 7 and 500, are stored by 2 live pods",
    ),
    case("an integer that was never stored", [GOLD, pod("a", priority=None, class_name="gold")]),
    case("an integer that agrees", [GOLD, pod("a", priority=1000, class_name="gold")]),
    case("a nil value is 0", [priority_class("zero"), pod("a", priority=0, class_name="zero")]),
    case("a class that is gone", [pod("a", priority=1, class_name="gold")]),
)
CASES.add(
    "default-class-duplicate",
    ("PriorityClass b", "globalDefault"),
    case(
        "three defaults",
        [
            priority_class("b", 5, default=True),
            priority_class("a", 5, default=True),
            priority_class("c", 9, default=True),
        ],
        "beside a (5), which is used instead of its 5",
        ("PriorityClass c", "globalDefault", "beside a (5), which is used instead of its 9"),
    ),
    case("one default", [priority_class("b", 5, default=True), GOLD]),
)
CASES.add(
    "default-class-newer",
    ("PriorityClass medium", "globalDefault"),
    case(
        "the default class came after the pods",
        [DEFAULT, pod("a"), pod("b"), pod("c", class_name="medium", priority=5000)],
        "the default class medium is 5000, but 2 live pods (team-a/a, team-a/b) without a "
        "class store priority 0. Each replacement gets 5000 and can preempt another of them.",
    ),
    case(
        "one pod is older than the default class",
        [DEFAULT, pod("a")],
        "stores priority 0. Each replacement gets 5000.",
    ),
    case(
        "the default class never preempts",
        [priority_class("medium", 5000, default=True, policy="Never"), pod("a"), pod("b")],
        "store priority 0. Each replacement gets 5000.",
    ),
    case(
        "the default class is lower than older pods",
        [priority_class("spare", -10, default=True), pod("a"), pod("b")],
        ("PriorityClass spare", "globalDefault", "Each replacement gets -10, which is lower."),
    ),
    case("older pods have the default's value", [PLAIN, pod("a"), pod("b")]),
    case(
        "no controller replaces older pods",
        [
            *(DEFAULT, pod("bare", owner=None), pod("static", owner=("v1", "Node", "node-0"))),
            *(pod("gone", terminating=True), pod("ended", phase="Succeeded"), pod("new", priority=None)),
        ],
    ),
    case("the template of older pods names a class by now", [DEFAULT, pod("a"), owner(class_name="gold")]),
    case("there is no default class", [GOLD, pod("a"), pod("b")]),
)
CASES.add(
    "default-class-system",
    ("PriorityClass system-cluster-critical", "globalDefault"),
    case(
        "a system class is the default",
        [priority_class("system-cluster-critical", 2_000_000_000, default=True)],
        "so each new pod without a class gets 2000000000",
    ),
    case("a user class is the default", [priority_class("b", 5, default=True), GOLD]),
)
CASES.add(
    "default-class-missing",
    ("PriorityClass (default)", "globalDefault"),
    case(
        "no default, and a group mixes",
        [GOLD, pod_group(priority=1000, class_name="gold"), member("a")],
        "the others have priority 0: team-a/train",
    ),
    case(
        "no default, and every group is of one mind",
        [
            GOLD,
            pod_group(priority=1000, class_name="gold"),
            member("a", class_name="gold", priority=1000),
            pod_group("plain"),
            pod("b", group="plain"),
            pod("lone"),
        ],
    ),
    case(
        "a default, and a group mixes",
        [priority_class("standard", 1, default=True), pod_group(class_name="gold"), member("a")],
    ),
)
CASES.add(
    "class-unused",
    ("PriorityClass gold", ""),
    case(
        "a class that no object names",
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
        "no live pod, group or template names it.",
    ),
    case("every class is named", [GOLD, pod("a", class_name="gold", priority=1000)]),
    case(
        "a class only finished pods name",
        [GOLD, pod("a", class_name="gold", priority=1000, phase="Succeeded")],
        "no live pod",
    ),
)
CASES.add(
    "top-class-share",
    ("PriorityClass gold", ""),
    case(
        "half are at the top",
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
        "50% of pods (10 of 20, system classes left out)",
    ),
    case(
        "fewer than half are at the top",
        [
            GOLD,
            SILVER,
            *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(10)),
            *(pod(f"low-{index}", class_name="silver", priority=500) for index in range(11)),
        ],
    ),
    case("few pods", [GOLD, SILVER, pod("top", class_name="gold", priority=1000)]),
    case(
        "one level", [GOLD, *(pod(f"top-{index}", class_name="gold", priority=1000) for index in range(30))]
    ),
)
