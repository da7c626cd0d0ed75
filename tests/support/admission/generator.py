"""A scenario from a seed: a namespace, some classes, and a script of twenty-odd creates, updates and deletes.

Pure: the same seed, index and minor give the same script. An update names its object by ordinal, not by name,
because only the server decides which objects exist. Most objects are drawn valid and get zero to two defects,
so that deep rules are reached.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from random import Random
from typing import Literal, NamedTuple

from tests.support.admission import composites, grouped, single
from tests.support.admission.edits import Edit, edited, put
from tests.support.admission.recording import CURRENT
from tests.support.admission.scene import MAX_PRIORITY, Defect, Document, Scene

_RANDOM_STEPS = 22
_STALE = "999999999"
_CLASS_VALUES = (0, 1, 100, 1000, 1000, -10, MAX_PRIORITY, -2_147_483_648)


class Kind(StrEnum):
    """The kinds of the scenarios."""

    CLASS = "PriorityClass"
    POD = "Pod"
    WORKLOAD = "Workload"
    GROUP = "PodGroup"
    COMPOSITE = "CompositePodGroup"


_GROUP_KINDS = (Kind.WORKLOAD, Kind.GROUP, Kind.COMPOSITE)


class Create(NamedTuple):
    """Send a document."""

    document: Document


class Replace(NamedTuple):
    """Put a document at the path of its name, whether such an object exists or not."""

    document: Document


class Change(NamedTuple):
    """Replace an existing object, or its status, by an edited copy of the stored or an earlier one."""

    kind: Kind
    subresource: Literal["", "status"]
    pick: int | str  # which of those that exist: modulo their number, or by name
    edits: Sequence[Edit]
    base: Literal["stored", "sent"]
    version: str  # metadata.resourceVersion: CURRENT, none if empty, or a version that is not stored


class Delete(NamedTuple):
    """Delete an existing object; the answer is not compared, the object that remains is."""

    kind: Kind
    pick: int | str  # or by name


Step = Create | Replace | Change | Delete


class Scenario(NamedTuple):
    """A script for a server without a default PriorityClass."""

    minor: str
    namespace: str
    steps: Sequence[Step]


def scenario(
    seed: int, index: int, minor: str, *, workload_api: bool = True, trees: bool = False
) -> Scenario:
    """Make the script number `index` of a seed; without the Workload API it has classes and pods only.

    With `trees` it has composite groups too, and most steps concern groups, because the gates of the
    server change nothing else.
    """
    script = _Script(seed, index, minor)
    if trees:
        return script.write_composites()
    return script.write() if workload_api else script.write_without()


_Weighted = tuple[int, Callable[[], None]]


class _Script:
    def __init__(self, seed: int, index: int, minor: str) -> None:
        self.rng = Random(f"{seed}/{index}/{minor}")
        self.tag = f"{seed}-{index}"
        self.scene = Scene(minor, f"differential-{self.tag}", classes={}, workloads={}, groups=[])
        self.steps: list[Step] = []
        self.count = 0

    def write(self) -> Scenario:
        for _ in range(self.rng.choice((1, 2, 3))):
            self.create_class(self.fresh("class"), defects=(0, 0, 0, 1))
        for _ in range(self.rng.choice((0, 1, 2))):
            self.create_workload(defects=(0, 0, 1))
        self.create_group(defects=(0,))
        return self.play(
            *self.single_actions(),
            (26, self.create_group),
            (14, self.create_workload),
            (12, lambda: self.change(Kind.GROUP, grouped.group_update)),
            (9, lambda: self.change(Kind.WORKLOAD, grouped.workload_update)),
            (9, lambda: self.change(Kind.GROUP, grouped.status_edits, "status")),
            (2, self.refer_to_template),
            (1, self.replace_nothing),
            (2, self.change_deleted),
            (2, lambda: self.delete(Kind.WORKLOAD)),
            (2, lambda: self.delete(Kind.GROUP)),
        )

    def write_composites(self) -> Scenario:
        self.create_class(self.fresh("class"), defects=(0,))
        self.create_tree(defects=(0,))
        self.create_composite(defects=(0,))
        return self.play(
            (1, lambda: self.create_class(self.fresh("class"))),
            (1, self.move_default),
            (1, self.recreate_class),
            (20, self.create_composite),
            (12, lambda: self.change(Kind.COMPOSITE, composites.composite_update)),
            (6, lambda: self.change(Kind.COMPOSITE, grouped.status_edits, "status")),
            (1, lambda: self.delete(Kind.COMPOSITE)),
            (1, lambda: self.steps.append(Replace(self.composite("missing")))),
            (16, self.create_tree),
            (12, lambda: self.change(Kind.WORKLOAD, composites.tree_update)),
            (4, self.create_workload),
            (4, lambda: self.change(Kind.WORKLOAD, grouped.workload_update)),
            (10, self.create_child),
            (6, lambda: self.change(Kind.GROUP, composites.child_update)),
            (2, lambda: self.change(Kind.GROUP, grouped.status_edits, "status")),
        )

    def write_without(self) -> Scenario:
        self.create_class(self.fresh("class"), defects=(0,))
        self.scene.groups.append("group-that-cannot-be")
        return self.play(*self.single_actions())

    def single_actions(self) -> tuple[_Weighted, ...]:
        return (
            (18, self.create_pod),
            (8, lambda: self.create_class(self.fresh("class"))),
            (6, lambda: self.change(Kind.CLASS, single.class_update)),
            (6, lambda: self.change(Kind.POD, single.pod_update)),
            (2, lambda: self.change(Kind.POD, single.pod_status_edits, "status")),
            (4, self.recreate_class),
            (1, self.create_again),
            (2, self.move_default),
            (1, lambda: self.delete(Kind.POD)),
        )

    def play(self, *actions: _Weighted) -> Scenario:
        choices = [action for weight, action in actions for _ in range(weight)]
        for _ in range(_RANDOM_STEPS):
            self.rng.choice(choices)()
        return Scenario(self.scene.minor, self.scene.namespace, self.steps)

    def fresh(self, stem: str) -> str:
        """Return a name that is unique, also among the PriorityClasses of other scenarios."""
        self.count += 1
        return f"{stem}-{self.count}-{self.tag}" if stem == "class" else f"{stem}-{self.count}"

    def create_class(self, name: str, defects: Sequence[int] = (0, 0, 1, 1, 2)) -> None:
        value = self.rng.choice(_CLASS_VALUES)
        document = single.priority_class(name, value, self.rng)
        if self.rng.random() < 0.2:
            document["globalDefault"] = True
        self.scene.classes[name] = value
        self.create(document, single.CLASS_DEFECTS, defects)

    def create_pod(self) -> None:
        document = single.pod(self.fresh("pod"), self.rng, self.scene)
        self.create(document, single.POD_DEFECTS, (0, 1, 1, 2))

    def create_workload(self, defects: Sequence[int] = (0, 1, 1, 1, 2)) -> None:
        name = self.fresh("workload")
        templates = [f"t{index}" for index in range(self.rng.choice((1, 1, 2, 3)))]
        document = grouped.workload(name, templates, self.rng, self.scene)
        if self.rng.random() < 0.15:
            document["metadata"]["finalizers"] = ["example.com/hold"]
        self.scene.workloads[name] = templates
        self.create(document, grouped.WORKLOAD_DEFECTS, defects)

    def composite(self, name: str) -> Document:
        return composites.composite_group(name, self.rng, self.scene)

    def create_composite(self, defects: Sequence[int] = (0, 0, 1, 1, 2)) -> None:
        self.create(self.composite(self.fresh("composite")), composites.COMPOSITE_DEFECTS, defects)

    def create_tree(self, defects: Sequence[int] = (0, 1, 1, 1, 2)) -> None:
        name = self.fresh("workload")
        self.scene.workloads[name] = ["root", "leaf-1"]
        self.create(composites.tree(name, self.rng, self.scene), composites.TREE_DEFECTS, defects)

    def create_child(self) -> None:
        name = self.fresh("group")
        self.scene.groups.append(name)
        document = composites.child(name, self.rng, self.scene)
        self.create(document, composites.CHILD_DEFECTS, (0, 0, 1, 1, 2))

    def create_group(self, defects: Sequence[int] = (0, 0, 1, 1, 2)) -> None:
        name = self.fresh("group")
        document = grouped.pod_group(name, self.rng, self.scene)
        self.scene.groups.append(name)
        self.create(document, grouped.GROUP_DEFECTS, defects)

    def create(self, document: Document, pool: Sequence[tuple[int, Defect]], defects: Sequence[int]) -> None:
        choices = [defect for weight, defect in pool for _ in range(weight)]
        edits: list[Edit] = []
        for _ in range(self.rng.choice(defects)):
            edits += self.rng.choice(choices)(self.rng, self.scene)
        self.steps.append(Create(edited(document, edits)))

    def change(self, kind: Kind, edits: Defect, subresource: Literal["", "status"] = "") -> None:
        made = list(edits(self.rng, self.scene))
        dialect = self.scene.dialect
        versions = dialect.composites if kind is Kind.COMPOSITE else dialect.versions
        if kind in _GROUP_KINDS and self.rng.random() < 0.2:
            # Any served version may be written, whichever version the object was created in.
            made.append(put("apiVersion", f"scheduling.k8s.io/{self.rng.choice(versions)}"))
        base: Literal["stored", "sent"] = "sent" if self.rng.random() < 0.2 else "stored"
        version = self.rng.choices((CURRENT, "", "0", _STALE, "words"), (94, 3, 1, 1, 1))[0]
        self.steps.append(Change(kind, subresource, self.rng.randrange(60), made, base, version))

    def delete(self, kind: Kind) -> None:
        self.steps.append(Delete(kind, self.rng.randrange(60)))

    def recreate_class(self) -> None:
        """Delete a class and usually create it again with another value."""
        name = self.rng.choice(list(self.scene.classes))
        self.steps.append(Delete(Kind.CLASS, name))
        if self.rng.random() < 0.8:
            self.create_class(name, defects=(0,))

    def refer_to_template(self) -> None:
        """Create a group from a Workload that lacks the template, or that is deleted or being deleted."""
        if not self.scene.workloads:
            return
        name, templates = next(iter(self.scene.workloads.items()))
        template = "no-such-template"
        if self.rng.random() < 0.6:
            template = templates[0]
            if self.rng.random() < 0.6:
                held = [put("metadata/finalizers", ["example.com/hold"])]
                self.steps.append(Change(Kind.WORKLOAD, "", name, held, "stored", CURRENT))
            self.steps.append(Delete(Kind.WORKLOAD, name))
        document = grouped.pod_group(self.fresh("group"), self.rng, self.scene)
        ref = grouped.template_ref(self.scene.dialect, name, template)
        edits = [put(f"spec/{self.scene.dialect.ref}", ref)]
        self.create(edited(document, edits), grouped.GROUP_DEFECTS, (0, 0, 1))

    def create_again(self) -> None:
        """Create a class again, if it still exists."""
        self.create_class(next(iter(self.scene.classes)), defects=(0,))

    def change_deleted(self) -> None:
        """Change a deleted group that its finalizer keeps."""
        name = self.rng.choice(self.scene.groups)
        self.steps.append(Delete(Kind.GROUP, name))
        for _ in range(2):
            edits = grouped.group_update(self.rng, self.scene)
            self.steps.append(Change(Kind.GROUP, "", name, edits, "stored", CURRENT))

    def replace_nothing(self) -> None:
        """PUT an object that does not exist."""
        name = self.fresh("missing")
        made = (
            grouped.pod_group(name, self.rng, self.scene),
            grouped.workload(name, ["t0"], self.rng, self.scene),
        )
        self.steps.append(Replace(self.rng.choice(made)))

    def move_default(self) -> None:
        """Move the default from one class to another: at most one of two requests meets a default."""
        for value in (False, True):
            edits = [put("globalDefault", value)]
            self.steps.append(Change(Kind.CLASS, "", self.rng.randrange(60), edits, "stored", CURRENT))
