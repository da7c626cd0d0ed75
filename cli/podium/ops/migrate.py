"""Plan the move of groups between Podium's resources and the native ones, from the present objects alone.

A group moves only while it is not in use: it is copied, then deleted. A group is in use if a live pod is a
member, or if a pod template names it. It is also in use if a controller created it and would create it again.
In that case a user must first change and restart the owner, because the group of a pod cannot be changed. No
record is needed: an interrupted run leaves copies beside their originals, and the next run sees both and
continues. A tree of composite groups moves whole or not at all, because a group without its parent waits.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from podium.api.convert import STORED, Fields, composite_version, convert
from podium.api.findings import ObjectRef, group_of
from podium.api.groups import (
    GROUP_LABEL,
    NATIVE_GROUP,
    PODIUM_GROUP,
    CompositeGroup,
    DisruptionMode,
    Template,
    Workload,
)
from podium.api.membership import GroupKey, group_name
from podium.api.meta import ObjectMeta
from podium.api.minors import WORKLOAD_VERSIONS, closest
from podium.audit.survey import Survey
from podium.cluster.reader import Child, ClusterReader
from podium.documents.document import Document
from podium.groups.planned import made_by_people
from podium.groups.trees import flaw, group_at, lineage, root_key
from podium.text import some

# The folders of manifests: the objects that move, and the objects in use.
MOVED, HELD = "moved", "held"

# The field with the group of a pod or a pod template.
FIELD = "spec.schedulingGroup.podGroupName"
LABEL = f"metadata.labels[{GROUP_LABEL}]"
# The order of the copies; originals are deleted in the reverse order.
_ORDER = ("Workload", "CompositePodGroup", "PodGroup")


class Api(StrEnum):
    """The API whose resources are meant; the value is its name."""

    NATIVE = "native"
    PODIUM = "podium"


class MigrationState(StrEnum):
    """The planned step for an object."""

    MOVES = "moves"
    COPIED = "is copied"  # Copied already; the original is deleted.
    USED = "in use"
    LEAVING = "being deleted"
    STAYS = "cannot move"


# The states that keep a whole tree, the worst first.
_KEEPING = (MigrationState.STAYS, MigrationState.USED)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An object and its plan.

    `copied` says whether a copy exists. `users` must be changed and restarted, or must finish, before the
    object can move. `why` is any other reason why it cannot move. `done` says what a run did with it, and
    `failed` that the object did not reach its planned state.
    """

    object: ObjectRef
    becomes: ObjectRef
    state: MigrationState
    copied: bool
    pods: int = 0
    users: list[str] = []
    why: str = ""
    done: str = ""
    failed: bool = False


class Move(NamedTuple):
    """The writes for an item: its copy, and the deletion of the original as it was read.

    `copied` is the UID of an existing copy. `workload` is the Workload from which a group was made, if any.
    `owners` are its references to objects of the old API, whose copies have other UIDs. `tree` is the root of
    a group of a tree, and `depth` the number of composite groups above it.
    """

    item: Item
    meta: ObjectMeta
    copy: Fields
    copied: str
    copies: bool
    workload: str
    owners: list[Fields]
    tree: GroupKey | None = None
    depth: int = 0

    @property
    def deletes(self) -> bool:
        """Return whether the original is deleted."""
        return self.item.state in (MigrationState.MOVES, MigrationState.COPIED)


class Migration(NamedTuple):
    """A plan: all items, the writes for some of them, and the manifests by file path in the folder."""

    items: list[Item]
    moves: list[Move]
    manifests: dict[str, list[Fields]]


def target_version(to: Api, minor: int) -> str:
    """Return the best version of an API for Kubernetes 1.`minor`."""
    if to is Api.PODIUM:
        return STORED
    return f"{NATIVE_GROUP}/{WORKLOAD_VERSIONS[closest(minor, WORKLOAD_VERSIONS)][0]}"


def plan_migration(
    view: ClusterReader, documents: Mapping[ObjectRef, Document], target: str, minor: int
) -> Migration:
    """Plan to move every group and Workload of the other API to the version `target`.

    `documents` are the whole objects of both kinds; Kubernetes is 1.`minor`.
    """
    planner = _Planner(view, documents, target, minor)
    groups = planner.as_trees(
        planner.group(key) for key in sorted([*view.composites, *view.groups]) if planner.moves(key)
    )
    made: dict[tuple[str, str], list[Move]] = defaultdict(list)
    for move in groups:
        made[move.item.object.namespace, move.workload].append(move)
    workloads = [
        planner.workload(key, made[key.namespace, key.name])
        for key in sorted(view.workloads)
        if planner.moves(key)
    ]
    moves = sorted(
        [*workloads, *groups],
        key=lambda move: (
            move.item.object.namespace,
            _ORDER.index(move.item.object.kind),
            move.depth,
            move.item.object,
        ),
    )
    manifests: dict[str, list[Fields]] = defaultdict(list)
    for move in moves:
        if not move.copied and move.item.state in (MigrationState.MOVES, MigrationState.USED):
            folder = MOVED if move.copies else HELD
            manifests[f"{folder}/{quote(move.item.object.namespace, safe='')}.yaml"].append(move.copy)
    return Migration([move.item for move in moves], moves, dict(manifests))


class _Planner:
    """Plans objects one by one; Workloads after the groups that were made from them."""

    def __init__(
        self, view: ClusterReader, documents: Mapping[ObjectRef, Document], target: str, minor: int
    ) -> None:
        self._view = view
        self._documents = documents
        self._target = target
        self._to_native = group_of(target) == NATIVE_GROUP
        self._survey = Survey(view, minor)
        self._surveyed = {group.key: group for group in self._survey.groups}
        self._templates = self._templated()
        self._owned = self._owners_of_things()

    def moves(self, key: GroupKey) -> bool:
        """Return whether an object belongs to the other API."""
        return key.native is not self._to_native

    def group(self, key: GroupKey) -> Move:
        """Plan a group or a composite group, without regard to the rest of its tree."""
        group, there = self._at(key), group_at(self._view, key._replace(native=self._to_native))
        pods = [] if key.composite else self._surveyed[key].present
        bare = [f"Pod {pod.metadata.name}" for pod in pods if self._survey.owner(pod) is None]
        users = {str(owner) for owner in self._survey.owners(pods)} | self._templates[key] | set(bare)
        copy, owners, why = self._copy(group.ref)
        users |= self._makers(group.metadata)
        workload = group.template_ref.workload if group.template_ref is not None else ""
        why = why or flaw(self._view, group)
        why = why or self._workload_stays(key._replace(name=workload, composite=False))
        if there is not None and not self._same_group(group, there):
            why = f"{there.ref.apiVersion} has another object of this name"
        item = self._item(group, users, why, copied=there is not None, pods=len(pods))
        root = root_key(self._view, key)
        return Move(
            item,
            group.metadata,
            copy,
            _uid(there),
            copies=item.state is MigrationState.MOVES,
            workload=workload,
            owners=owners,
            tree=root if root.composite else None,
            depth=len(lineage(self._view, group).above),
        )

    def as_trees(self, moves: Iterable[Move]) -> list[Move]:
        """Return the moves of groups, those of each tree in the worst state of the tree."""
        trees: dict[GroupKey | None, list[Move]] = defaultdict(list)
        for move in moves:
            trees[move.tree].append(move)
        alone = trees.pop(None, [])
        return alone + [move for tree in trees.values() for move in _as_tree(tree)]

    def _at(self, key: GroupKey) -> Child:
        return self._view.composites[key] if key.composite else self._view.groups[key]

    def workload(self, key: GroupKey, groups: Iterable[Move]) -> Move:
        """Plan a Workload, which stays as long as any group that was made from it."""
        workload = self._view.workloads[key]
        there = self._view.workloads.get(key._replace(native=self._to_native))
        staying = [
            move for move in groups if not move.deletes and move.item.state is not MigrationState.LEAVING
        ]
        copy, owners, why = self._copy(workload.ref)
        if there is not None and not self._same_workload(workload, there):
            why = f"{there.ref.apiVersion} has another object of this name"
        makers = self._makers(workload.metadata)
        users = {str(move.item.object) for move in staying} | makers
        item = self._item(workload, users, why, copied=there is not None)
        # Groups that move need their Workload in the new API, even if other groups stay.
        needed = item.state is MigrationState.USED and not makers and any(move.copies for move in groups)
        return Move(
            item,
            workload.metadata,
            copy,
            _uid(there),
            copies=there is None and (needed or item.state is MigrationState.MOVES),
            workload="",
            owners=owners,
        )

    def _item(
        self, thing: Child | Workload, users: set[str], why: str, *, copied: bool, pods: int = 0
    ) -> Item:
        ref, meta = thing.ref, thing.metadata
        if meta.deletionTimestamp is not None:
            held = some(meta.finalizers or ())
            state, why = MigrationState.LEAVING, f"until its finalizers are removed: {held}" if held else ""
        elif why:
            state = MigrationState.STAYS
        elif users:
            state = MigrationState.USED
        else:
            state = MigrationState.COPIED if copied else MigrationState.MOVES
        becomes = ObjectRef(self._version(ref.kind), ref.kind, ref.namespace, ref.name)
        return Item(
            object=ref, becomes=becomes, state=state, copied=copied, pods=pods, users=sorted(users), why=why
        )

    def _copy(self, ref: ObjectRef) -> tuple[Fields, list[Fields], str]:
        """Return the copy, its references that need a new UID, and what the copy cannot express."""
        document = self._documents[ref].value()
        copy, notes = convert(document, self._target, self._survey.minor)
        lost = [note for note in notes if note.lost and note.field != "metadata.ownerReferences"]
        owners = [
            {key: value for key, value in owner.items() if key != "uid"}
            | {"apiVersion": self._version(owner.get("kind", ""))}
            for owner in document["metadata"].get("ownerReferences") or ()
            if group_of(owner.get("apiVersion") or "") == ref.group
        ]
        written = _without_nulls({key: value for key, value in copy.items() if key != "status"})
        return written, owners, "; ".join(f"{note.field}: {note.text}" for note in lost)

    def _version(self, kind: str) -> str:
        """Return the version of a copy of a kind."""
        of_composite = kind == "CompositePodGroup"
        return (composite_version(self._target, self._survey.minor) if of_composite else None) or self._target

    def _makers(self, meta: ObjectMeta) -> set[str]:
        """Return the controller that would recreate an object, and the objects that it owns.

        A Workload as controller would not recreate it. Dependents would be deleted with the object.
        """
        makers = self._owned[meta.uid] if meta.uid else set[str]()
        maker = meta.controller()
        if maker is None or group_of(maker.apiVersion) in (NATIVE_GROUP, PODIUM_GROUP):
            return makers
        return {*makers, str(ObjectRef(maker.apiVersion, maker.kind, meta.namespace or "", maker.name))}

    def _workload_stays(self, key: GroupKey) -> str:
        """Return why a Workload cannot move with its group; empty if it can, or does not exist."""
        workload = self._view.workloads.get(key)
        if workload is None:
            return ""
        there = self._view.workloads.get(key._replace(native=self._to_native))
        if there is not None:
            return "" if self._same_workload(workload, there) else f"its {workload.ref} cannot move"
        why = self._copy(workload.ref)[2] or self._makers(workload.metadata)
        return f"its {workload.ref} cannot move" if why else ""

    def _same_group(self, left: Child, right: Child) -> bool:
        # kube-apiserver 1.38 writes the policy of the class into a group that has none.
        policies = {left.preemption_policy, right.preemption_policy} - {None}
        same = _meant(left) == _meant(right) and left.template_ref == right.template_ref
        return (
            same
            and len(policies) < 2
            and left.composite == right.composite
            and self._rest(left.ref) == self._rest(right.ref)
        )

    def _same_workload(self, left: Workload, right: Workload) -> bool:
        def templates(workload: Workload) -> list[tuple[object, ...]]:
            return [
                (template.name, template.composite, template.preemption_policy, *_meant(template))
                for template in workload.templates.values()
            ]

        return templates(left) == templates(right) and self._rest(left.ref) == self._rest(right.ref)

    def _rest(self, ref: ObjectRef) -> list[object]:
        return _unread(self._documents[ref].value())

    def _templated(self) -> dict[GroupKey, set[str]]:
        """Return the owners whose pod templates name each group."""
        owners: dict[GroupKey, set[str]] = defaultdict(set)
        for owner in made_by_people(self._view.owners):
            for template in owner.templates.values():
                named = group_name(template.metadata, template.spec, native_served=self._view.native_served)
                if named is not None:
                    owners[GroupKey(named[0], owner.ref.namespace, named[1])].add(str(owner.ref))
        return owners

    def _owners_of_things(self) -> dict[str, set[str]]:
        """Return the pods and pod owners by the UIDs of their owners."""
        by_uid: dict[str, set[str]] = defaultdict(set)
        for pod in self._view.pods.values():
            for owner in pod.metadata.ownerReferences or ():
                by_uid[owner.uid].add(f"Pod {pod.metadata.name}")
        for pod_owner in self._view.owners.values():
            for owner in pod_owner.metadata.ownerReferences or ():
                by_uid[owner.uid].add(str(pod_owner.ref))
        return by_uid


def _as_tree(moves: list[Move]) -> list[Move]:
    """Return the moves of a tree in the worst state of them."""
    kept = [move.item for state in _KEEPING for move in moves if move.item.state is state]
    # Its copy would be missing from the tree.
    kept += [
        move.item for move in moves if move.item.state is MigrationState.LEAVING and not move.item.copied
    ]
    if not kept:
        return moves
    worst = kept[0]
    state = MigrationState.STAYS if worst.state is MigrationState.LEAVING else worst.state
    why = f"its tree has {worst.object.kind} {worst.object.name}: {worst.state}"
    return [
        move
        if move.item.state in (state, MigrationState.LEAVING)
        else move._replace(
            item=msgspec.structs.replace(
                move.item, state=state, why="; ".join(filter(None, (move.item.why, why)))
            ),
            copies=False,
        )
        for move in moves
    ]


def _uid(copy: Child | Workload | None) -> str:
    return "" if copy is None else copy.metadata.uid or "?"


def _meant(template: Template | Child) -> tuple[object, ...]:
    """Return the properties that a scheduler reads, without preemptionPolicy.

    A nil integer is 0, no mode is DisruptionMode.POD.
    """
    return (
        template.min_group_count if isinstance(template, CompositeGroup) else template.min_count,
        template.disruption_mode or DisruptionMode.POD,
        template.priority_class_name,
        template.priority or 0,
    )


def _unread(document: Fields) -> list[object]:
    """Return the parts of a spec that the neutral forms of group and Workload only name or leave out."""
    spec = _without_nulls(document.get("spec") or {})
    return [spec.get("controllerRef"), *_unread_parts(spec)]


def _unread_parts(spec: Fields) -> list[object]:
    """Return the parts of a spec or a composite template, and of the templates in it."""
    parts: list[object] = [
        [template.get(name) or None for name in ("schedulingConstraints", "resourceClaims")]
        for template in (spec, *spec.get("podGroupTemplates", ()))
    ]
    parts += [
        [inner.get("name"), inner.get("schedulingPolicy"), *_unread_parts(inner)]
        for inner in spec.get("compositePodGroupTemplates", ())
    ]
    return parts


def _without_nulls(value: Fields) -> Fields:
    """Return the value without nulls, which have no meaning here and which CRD schemas refuse."""
    return {
        key: _without_nulls(inner)
        if isinstance(inner, dict)
        else [_without_nulls(item) if isinstance(item, dict) else item for item in inner]
        if isinstance(inner, list)
        else inner
        for key, inner in value.items()
        if inner is not None
    }
