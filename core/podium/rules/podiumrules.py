"""Podium's own rules: checks that upstream promised and dropped, or never had. Each can be turned off.

They are added to the API server's rules and never replace them. On native objects a breach only warns unless
the administrator sets another level, so no object that is valid upstream is refused by surprise.
"""

from podium.api import priority
from podium.api.findings import Severity
from podium.api.groups import GROUP_LABEL
from podium.api.reads import Kind
from podium.rules import gang
from podium.rules.context import Operation
from podium.rules.fields import RuleRemedy
from podium.rules.podiumrule import AdmissionPhase, OwnRule, WriteTarget
from podium.rules.policy import RuleLevel
from podium.rules.rule import Rule
from podium.rules.tolerations import TOLERATION_CONTRADICTS, TOLERATION_UNREADABLE

_MEMBER_CREATED = WriteTarget("Pod", Operation.CREATE, AdmissionPhase.VALIDATE, members=True)
_GROUP_CREATED = WriteTarget("PodGroup", Operation.CREATE, AdmissionPhase.VALIDATE)
_COMPOSITE_CREATED = WriteTarget("CompositePodGroup", Operation.CREATE, AdmissionPhase.VALIDATE)
_WORKLOAD_CREATED = WriteTarget("Workload", Operation.CREATE, AdmissionPhase.VALIDATE)


MEMBER_PRIORITY = OwnRule(
    RuleRemedy(
        Rule(
            id="member-priority",
            severity=Severity.WARNING,
            title="A pod's priority differs from its group's",
            why="Kubernetes 1.36 silently uses the group's priority; 1.37 does not schedule such a group.",
            source="Podium; checks that KEP-5710 discussed and dropped",
        ),
        "Set the group's priorityClassName in the pod template.",
    ),
    RuleLevel.WARN,
    RuleLevel.WARN,
    (WriteTarget("Pod", Operation.CREATE, AdmissionPhase.MUTATE, members=True), _MEMBER_CREATED),
)
CLASS_ALLOWED = OwnRule(
    RuleRemedy(
        Rule(
            id="class-allowed",
            severity=Severity.ERROR,
            title="A class that is not allowed in the namespace",
            why="Quota by priority class counts pods only: a group could use any class.",
            source="Podium",
        ),
        "Use one of the classes that the administrator allows for this namespace.",
    ),
    RuleLevel.DENY,
    RuleLevel.DENY,
    (WriteTarget("Pod", Operation.CREATE, AdmissionPhase.VALIDATE), _GROUP_CREATED, _COMPOSITE_CREATED),
)
LABEL_FIXED = OwnRule(
    RuleRemedy(
        Rule(
            id="group-label-immutable",
            severity=Severity.ERROR,
            title="The group label of a pod was added, changed or removed",
            why="Membership decides priority and preemption; the native field cannot change either.",
            source="Podium",
        ),
        f"Keep the label {GROUP_LABEL} as it was when the pod was created, or create another pod.",
    ),
    RuleLevel.DENY,
    RuleLevel.DENY,
    (
        WriteTarget("Pod", Operation.UPDATE, AdmissionPhase.VALIDATE, members=True),
        WriteTarget("Pod", Operation.UPDATE, AdmissionPhase.VALIDATE, subresource="status", members=True),
    ),
)
NAME_LENGTH = OwnRule(
    RuleRemedy(
        Rule(
            id="podium-name-length",
            severity=Severity.ERROR,
            title="The name of a Podium resource is too long for a label",
            why="Pods name their group in a label, and a label's value has at most 63 characters.",
            source="Podium",
        ),
        "Shorten the name to 63 characters.",
    ),
    RuleLevel.OFF,
    RuleLevel.DENY,
    (_GROUP_CREATED, _WORKLOAD_CREATED),
)
CLASS_WITHOUT_VALUE = OwnRule(
    RuleRemedy(
        Rule(
            id="class-without-value",
            severity=Severity.WARNING,
            title="A PriorityClass without a value",
            why="The schema requires it, but the API server stores 0, the priority of pods without a class.",
            source="Podium; PriorityClass of scheduling.k8s.io/v1",
        ),
        "Set the value; it is immutable later.",
    ),
    RuleLevel.WARN,
    RuleLevel.OFF,
    (),
)
RULES = tuple(
    own.cause.rule
    for own in (
        MEMBER_PRIORITY,
        CLASS_ALLOWED,
        LABEL_FIXED,
        NAME_LENGTH,
        CLASS_WITHOUT_VALUE,
        gang.WITHOUT_OWNER,
    )
)

# The audit has these rules too, for stored objects, and imports them from here.
BASIC_WITH_GROUP_DISRUPTION = Rule(
    id="basic-with-group-disruption",
    severity=Severity.WARNING,
    title="A basic group is preempted as a whole",
    why="KEP-5710 specifies that this combination is refused, but 1.38 is the first to refuse it. One "
    "victim then evicts members that do not depend on each other.",
    source="KEP-5710",
    needs=frozenset({Kind.POD_GROUP}),
)
CHILDREN_EVICTED_SINGLY = Rule(
    id="composite-child-mode",
    severity=Severity.WARNING,
    title="A template below a composite one of mode `all` has another mode",
    why="KEP-6012 specifies that all children of such a template have the mode `all`, but 1.37 does not "
    "check it, as 1.38 does. The pods of the child are evicted with the whole tree in spite of their mode.",
    source="KEP-6012",
    needs=frozenset({Kind.WORKLOAD}),
)
TEMPLATE_CLASS_MISSING = Rule(
    id="template-class-missing",
    severity=Severity.WARNING,
    title="A template names a PriorityClass that does not exist or is not in the input",
    why="The API server refuses every pod and group created from it. The object with the template "
    "is accepted and looks healthy until then.",
    source="kube-apiserver (Priority admission); templates are not looked at",
    needs=frozenset({Kind.PRIORITY_CLASS, Kind.OWNER}),
)
TEMPLATE_PRIORITY_UNRESOLVED = Rule(
    id="template-priority-unresolved",
    severity=Severity.WARNING,
    title="A template of groups has a priority that its class does not have",
    why="A group gets the value of its class, or of the default class. The API server stores any priority in "
    "the template of a Workload, and refuses a PodGroup that repeats it.",
    source="kube-apiserver 1.36.3 and 1.37.0 (run): Priority admission",
    needs=frozenset({Kind.WORKLOAD}),
)
SYSTEM_CLASS_ON_GROUP = Rule(
    id="system-class-on-group",
    severity=Severity.WARNING,
    title="A group or template names a system-* class",
    why=f"A group's priority is at most {priority.HIGHEST_USER_PRIORITY:,} before Kubernetes 1.38: the API "
    "server refuses such groups.",
    source="kube-apiserver 1.36.3 and 1.37.0 (run): maximum of spec.priority",
    needs=frozenset({Kind.POD_GROUP}),
)
GROUP_UNLIKE_TEMPLATE = Rule(
    id="group-unlike-template",
    severity=Severity.WARNING,
    title="A PodGroup differs from its Workload's template",
    why="The API server neither copies nor compares the template: a controller that omits the "
    "class creates groups of the default class.",
    source="KEP-5710 (controllers are expected to copy); removed check, kubernetes/kubernetes#139008",
    needs=frozenset({Kind.POD_GROUP, Kind.WORKLOAD}),
)
MEMBERSHIP_CONFLICT = Rule(
    id="membership-conflict",
    severity=Severity.WARNING,
    title="A pod's label and its field name different groups",
    why="If the native API is served, spec.schedulingGroup is used and the label is ignored.",
    source="Podium: membership",
    needs=frozenset({Kind.POD}),
)
SAVE_DECLARATION_WRONG = Rule(
    id="save-declaration",
    severity=Severity.ERROR,
    title="A wrong annotation about saving work, or about the run time",
    why="It is not read. An eviction then counts as the loss of all work since the start, and other "
    "workloads are evicted. No preemptor waits for the end of the pod.",
    source="Podium",
    needs=frozenset({Kind.POD}),
)
BASIC_MODE = OwnRule(
    RuleRemedy(BASIC_WITH_GROUP_DISRUPTION, "Use a gang policy, or disruption mode Pod ({single: {}})."),
    RuleLevel.WARN,
    RuleLevel.DENY,
    (_GROUP_CREATED, _WORKLOAD_CREATED),
)
CHILD_MODE = OwnRule(
    RuleRemedy(
        CHILDREN_EVICTED_SINGLY, "Set disruptionMode {all: {}} in each template below, or single in this one."
    ),
    RuleLevel.WARN,
    RuleLevel.DENY,
    (_WORKLOAD_CREATED,),
)
TEMPLATE_CLASS = OwnRule(
    RuleRemedy(TEMPLATE_CLASS_MISSING, "Create the PriorityClass first, or name an existing one."),
    RuleLevel.WARN,
    RuleLevel.WARN,
    (_WORKLOAD_CREATED,),
)
TEMPLATE_PRIORITY = OwnRule(
    RuleRemedy(TEMPLATE_PRIORITY_UNRESOLVED, "Name a class that has this value in the template."),
    RuleLevel.WARN,
    RuleLevel.WARN,
    (_WORKLOAD_CREATED,),
)
TEMPLATE_SYSTEM_CLASS = OwnRule(
    RuleRemedy(SYSTEM_CLASS_ON_GROUP, f"Name a class of at most {priority.HIGHEST_USER_PRIORITY}."),
    RuleLevel.WARN,
    RuleLevel.WARN,
    (_WORKLOAD_CREATED,),
)
UNLIKE_TEMPLATE = OwnRule(
    RuleRemedy(
        GROUP_UNLIKE_TEMPLATE,
        "Use the template's values. Name a class in a template that has only a priority.",
    ),
    RuleLevel.WARN,
    RuleLevel.WARN,
    (_GROUP_CREATED,),
)
TWO_GROUPS = OwnRule(
    RuleRemedy(MEMBERSHIP_CONFLICT, f"Name the same group in both, or remove the label {GROUP_LABEL}."),
    RuleLevel.WARN,
    RuleLevel.WARN,
    (_MEMBER_CREATED,),
)
SAVE_DECLARATION = OwnRule(
    RuleRemedy(SAVE_DECLARATION_WRONG, "Write the value as docs/saving.md says, or remove the annotation."),
    RuleLevel.DENY,
    RuleLevel.DENY,
    tuple(
        WriteTarget(kind, operation, AdmissionPhase.VALIDATE)
        for kind in ("Pod", "PodGroup")
        for operation in (Operation.CREATE, Operation.UPDATE)
    ),
)
CLASS_TOLERATION = OwnRule(
    RuleRemedy(TOLERATION_UNREADABLE, "Use an integer."),
    RuleLevel.WARN,
    RuleLevel.OFF,
    (),
)
CLASS_PREFIXES = OwnRule(
    RuleRemedy(TOLERATION_CONTRADICTS, "Use one of the two."),
    RuleLevel.WARN,
    RuleLevel.OFF,
    (),
)
OWN_RULES = (
    MEMBER_PRIORITY,
    CLASS_ALLOWED,
    LABEL_FIXED,
    NAME_LENGTH,
    BASIC_MODE,
    CHILD_MODE,
    TEMPLATE_CLASS,
    TEMPLATE_PRIORITY,
    TEMPLATE_SYSTEM_CLASS,
    UNLIKE_TEMPLATE,
    TWO_GROUPS,
    SAVE_DECLARATION,
    gang.WITHOUT_OWNER,
)
# For `podium admit` only: administrators write the few classes, so no webhook receives them.
CLASS_RULES = (CLASS_TOLERATION, CLASS_PREFIXES, CLASS_WITHOUT_VALUE)

NAME_LIMIT = 63
