"""The context in which an object is drawn, and the pools of good and bad values that all kinds share.

The script decides how often a bad value is drawn. At most one entry of a label map is bad: a server walks
maps in random order, so two bad entries could give two answers.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.support.admission.edits import Edit, drop, put

GROUP = "scheduling.k8s.io"
MAX_PRIORITY = 1_000_000_000

Document = dict[str, Any]


class Dialect(NamedTuple):
    """The spelling of the Workload API in one Kubernetes minor."""

    versions: tuple[str, ...]  # repeated as often as they are to be drawn
    ref: str  # the field that names a template
    ref_names: tuple[str, str]  # its paths to the workload's and the template's name
    good_modes: tuple[Any, ...]
    bad_modes: tuple[Any, ...]
    composites: tuple[str, ...] = ()  # the versions of CompositePodGroup
    alike: bool = False  # whether child templates must have their parent's gang and mode all


_1_37 = Dialect(
    versions=("v1beta1", "v1beta1", "v1beta1", "v1alpha3"),
    ref="workloadRef",
    ref_names=("workloadName", "templateName"),
    good_modes=({"single": {}}, {"all": {}}),
    bad_modes=(
        {},
        {"single": {}, "all": {}},
        {"single": None},
        {"all": {}, "single": None},
        {"all": {"grace": 5}},
        None,
        "Pod",
    ),
    composites=("v1alpha3",),
)
DIALECTS = {
    "1.36": Dialect(
        versions=("v1alpha2",),
        ref="podGroupTemplateRef",
        ref_names=("workload/workloadName", "workload/podGroupTemplateName"),
        good_modes=("Pod", "PodGroup"),
        bad_modes=("", "Everything", None, "pod", {"single": {}}),
    ),
    "1.37": _1_37,
    "1.38": _1_37._replace(composites=_1_37.versions, alike=True),
}


class Scene(NamedTuple):
    """The objects that a scenario has planned so far; the server may have refused some."""

    minor: str
    namespace: str
    classes: dict[str, int]  # PriorityClasses by name, with the value last asked for
    workloads: dict[str, list[str]]  # template names by workload
    groups: list[str]

    @property
    def dialect(self) -> Dialect:
        """Return the spelling of the Workload API in this minor."""
        return DIALECTS[self.minor]


Defect = Callable[[Random, Scene], Sequence[Edit]]

# Names: most must be an RFC 1123 subdomain, some a label.
BAD_SUBDOMAINS = (
    *("", "Bad_Name", "a..b", "-a", "a-", "a" * 254, "a/b", None),
    *("ünï", 'quo"te', "back\\slash", "two\nlines", "\x01\x7f", "<&>", "\u2028", "\U0001f600"),
)
NOT_LABELS = ("a" * 64, "x.y", "UPPER", "")
PRIORITIES = (
    0,
    1,
    100,
    1000,
    -10,
    MAX_PRIORITY,
    MAX_PRIORITY + 1,
    2_000_000_000,
    2_147_483_647,
    -2_147_483_648,
    None,
)
# Wrong types and numbers out of int32: a server answers 400 before it evaluates any rule.
NOT_INT32 = ("100", 1.5, 1000.0, 2_147_483_648, -2_147_483_649, 10**19, True, [1], {"value": 1})

_BAD_LABELS = (
    {"Bad Key!": "x"},
    {"app": "bad value!"},
    {"app": "x" * 64},
    {"a/b/c": "x"},
    {"": "x"},
    {"-app": "x"},
    {"Example.com/app": "x"},
    {"app": 7},
    {"app": "ünï"},
    {'"': "x"},
    ["app"],
    "app=train",
)
_GOOD_LABELS: tuple[Any, ...] = (
    {},
    None,
    {"app": "train"},
    {"example.com/app": ""},
    {"app": None},
    {"a.b-c_d": "x" * 63},
)
_BAD_ANNOTATIONS = ({"Bad Key!": "x"}, {"a/b/c": "x"}, {"": "x"}, {"x" * 64: "x"})
_GOOD_ANNOTATIONS: tuple[Any, ...] = (
    {},
    None,
    {"note": "any text, \n even this"},
    {"Example.com/note": "capitals pass here"},
)
_FINALIZERS: tuple[Any, ...] = (
    ["example.com/hold"],
    ["orphan"],
    ["nobody"],
    ["Bad/"],
    ["example.com/UPPER", "a/b/c"],
    ["example.com/hold", "example.com/hold"],
    [],
    None,
    ["scheduling.k8s.io/podgroup-protection"],
    [None],
    [""],
    ["example.com/hold", 5],
    "example.com/hold",
)
_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "0-0", "controller": True}
# Fields that a client may send and the server overwrites, or keeps.
_SERVER_FIELDS: tuple[tuple[str, Any], ...] = (
    ("uid", "someone-elses"),
    ("generation", 7),
    ("creationTimestamp", None),
    ("creationTimestamp", "2020-02-02T02:02:02Z"),
    ("deletionTimestamp", "2020-02-02T02:02:02Z"),
    ("deletionGracePeriodSeconds", 5),
    ("selfLink", "/here"),
    ("creationTimestamp", "long ago"),
    ("generation", "7"),
    ("ownerReferences", [_OWNER]),
    ("ownerReferences", [_OWNER, {**_OWNER, "name": "other"}]),
    ("ownerReferences", [{"apiVersion": "a/b/c", "kind": "", "name": "", "uid": ""}]),
    ("ownerReferences", [{**_OWNER, "apiVersion": "v1", "kind": "Event"}, {}]),
)


def metadata_edits(rng: Random, _scene: Scene) -> list[Edit]:
    """Return a change to labels, annotations or finalizers, good or bad."""
    match rng.randrange(20):
        case 0 | 1 | 2 | 3 | 4 | 5:
            return [put("metadata/labels", rng.choice(_BAD_LABELS))]
        case 6 | 7 | 8:
            return [put("metadata/labels", rng.choice(_GOOD_LABELS))]
        case 9 | 10 | 11 | 12:
            return [put("metadata/annotations", rng.choice(_BAD_ANNOTATIONS))]
        case 13 | 14:
            return [put("metadata/annotations", rng.choice(_GOOD_ANNOTATIONS))]
        case 15 if rng.random() < 0.1:
            return [put("metadata/annotations", {"note": "x" * (256 * 1024)})]
        case 17 | 18:
            field, value = rng.choice(_SERVER_FIELDS)
            return [put(f"metadata/{field}", value)]
        case 16:
            # Wrong for a new object; a script gives most updates the right one.
            return [put("metadata/resourceVersion", "5")]
        case _:
            return [put("metadata/finalizers", rng.choice(_FINALIZERS))]


def bad_name(rng: Random, _scene: Scene) -> list[Edit]:
    return [put("metadata/name", rng.choice(BAD_SUBDOMAINS))]


def generate_name(rng: Random, _scene: Scene) -> list[Edit]:
    prefix = rng.choice(("made-", "made-", "Bad_", "-", "a" * 250))
    return [drop("metadata/name"), put("metadata/generateName", prefix)]


def unknown_field(rng: Random, _scene: Scene) -> list[Edit]:
    place = rng.choice(("spec/", "metadata/", ""))
    return [put(f"{place}unheardOf", rng.choice(("x", 1, {"a": []}, None)))]


def likely_class(rng: Random, scene: Scene) -> str:
    """Return a planned class; the first classes were drawn valid, so they usually exist."""
    names = list(scene.classes)
    return rng.choice(names[:3] if rng.random() < 0.8 else names)


def class_name(rng: Random, scene: Scene) -> Any:
    known = list(scene.classes)[:2] or ["none-planned"]
    return rng.choice(
        (
            *known,
            *known,
            "no-such-class",
            "",
            None,
            "system-node-critical",
            "system-cluster-critical",
            rng.choice(BAD_SUBDOMAINS),
        )
    )


def number(rng: Random, scene: Scene) -> Any:
    """Return a priority, often that of a class."""
    if rng.random() < 0.06:
        return rng.choice(NOT_INT32)
    if scene.classes and rng.random() < 0.5:
        return rng.choice(list(scene.classes.values()))
    return rng.choice(PRIORITIES)


def some(rng: Random, scene: Scene, options: Sequence[Defect]) -> list[Edit]:
    return [edit for _ in range(rng.choice((1, 1, 1, 2))) for edit in rng.choice(options)(rng, scene)]
