"""Carry out a migration: create the copies first, then delete the originals that are not in use.

A group is always in at least one API, so a run can be interrupted at any point and repeated. A delete names
the object that was planned (its UID and resourceVersion), and happens only after the pods were read again. No
pod is changed.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import quote

from podium import jsontext
from podium.api.convert import Fields
from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey, membership
from podium.documents.scope import Scope
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.kube.discovery import Discovery
from podium.kube.listing import ReadProgress, list_all
from podium.ops.migrate import Move

MANAGER = "podium-migrate"


class Done(NamedTuple):
    """The action on an object, in words; `failed` means that it did not reach its planned state."""

    done: str
    failed: bool = False


class _Used(NamedTuple):
    """The groups and owners of pods: the groups of live pods, and the UIDs of the owners of any pod."""

    groups: set[GroupKey]
    owners: set[str]

    def needs(self, move: Move) -> bool:
        """Return whether a pod needs an original."""
        ref = move.item.object
        key = GroupKey(ref.group == NATIVE_GROUP, ref.namespace, ref.name)
        return (ref.kind == "PodGroup" and key in self.groups) or move.meta.uid in self.owners


class Migrator:
    """A migration run on one server."""

    def __init__(self, connection: Connection, discovery: Discovery, watcher: ReadProgress) -> None:
        """Create a run.

        `discovery` has all kinds that Podium reads, `watcher` receives a line for each write.
        """
        self._connection = connection
        self._discovery = discovery
        self._watcher = watcher
        self.done: dict[ObjectRef, Done] = {}
        # The trees with an object that failed, each with the result for the rest of the tree.
        self._broken: dict[GroupKey, str] = {}

    async def migrate(self, moves: Sequence[Move]) -> None:
        """Carry out a plan, one namespace after another; `done` has the result for each object.

        An object that the server refuses is skipped, and the rest continues. Raises PodiumError if the server
        does not answer, or does not serve the target version. The next run continues from the present state.
        """
        for namespace, here in groupby(moves, key=lambda move: move.item.object.namespace):
            await self._namespace(namespace, list(here))

    async def _namespace(self, namespace: str, moves: Sequence[Move]) -> None:
        """Copy Workloads, then composite groups from the root down, then groups; delete in reverse."""
        workloads = [move for move in moves if move.item.object.kind == "Workload"]
        groups = [move for move in moves if move.item.object.kind != "Workload"]
        uids = {_kind_and_name(move): move.copied for move in moves if move.copied}
        for move in (*workloads, *groups):
            if move.copies:
                await self._copy(move, uids)
        if not any(move.deletes for move in moves):
            return
        used = await self._used(namespace)
        for move in groups:
            if move.tree is not None and move.deletes and used.needs(move):
                self._broken[move.tree] = "copied; a pod uses its tree now"
        for move in reversed(groups):
            if move.deletes and not self._failed(move.item.object):
                await self._delete(move, used)
        staying = {move.workload for move in groups if move.deletes and self._failed(move.item.object)}
        for move in workloads:
            if move.deletes and move.item.object.name in staying and not self._failed(move.item.object):
                self._report_note(move, "copied; some of its groups still exist", failed=True)
            elif move.deletes and not self._failed(move.item.object):
                await self._delete(move, used)

    async def _copy(self, move: Move, uids: dict[tuple[str, str], str]) -> None:
        """Apply a copy; `uids` are the UIDs of copies by kind and name, and get this one's UID."""
        ref = move.item.object
        workload = ObjectRef(ref.apiVersion, "Workload", ref.namespace, move.workload)
        if move.tree in self._broken:
            self._report_note(move, "not copied, because its tree was not copied whole", failed=True)
            return
        if move.workload and ("Workload", move.workload) not in uids and self._failed(workload):
            self._report_note(
                move, f"not copied, because Workload {move.workload} was not copied", failed=True
            )
            return
        document = _owned(move, uids)
        becomes = move.item.becomes
        if ref.kind == "CompositePodGroup" and not self._discovery.serves(becomes.group, becomes.kind):
            text = f"not copied: the cluster does not serve {becomes.apiVersion} {becomes.kind}"
            self._report_note(move, text, failed=True)
            return
        try:
            body = await self._connection.apply(self._path(move.item.becomes), document, manager=MANAGER)
        except RefusedError as refused:
            self._report_note(move, f"not copied: {refused.message or refused}", failed=True)
            return
        self._report_note(move, "copied")
        if ref.kind != "PodGroup":
            uids[_kind_and_name(move)] = jsontext.parse(body, dict[str, Any])["metadata"]["uid"]

    async def _delete(self, move: Move, used: _Used) -> None:
        """Delete an original, unless a pod needs it now."""
        ref, meta = move.item.object, move.meta
        if move.tree in self._broken:
            self._report_note(move, self._broken[move.tree], failed=True)
            return
        if used.needs(move):
            self._report_note(move, "copied; a pod uses it now", failed=True)
            return
        moment = {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
        try:
            await self._connection.send("DELETE", self._path(ref), {"preconditions": moment})
        except RefusedError as refused:
            if refused.code == 409:
                self._report_note(move, "copied; changed since it was read. Run this again", failed=True)
                return
            if refused.code != 404:
                self._report_note(move, f"copied, not deleted: {refused.message or refused}", failed=True)
                return
        self._report_note(move, "moved" if move.copies else "the copy existed; deleted")

    async def _used(self, namespace: str) -> _Used:
        """Read the pods of a namespace as they are now."""
        pods = [resource for resource in self._discovery.served if resource.plural == "pods"]
        native = self._discovery.serves(NATIVE_GROUP, "PodGroup")
        used = _Used(set(), set())
        only = self._discovery._replace(served=pods)
        async for page in list_all(self._connection, only, Scope(namespace), self._watcher):
            if page.unread:
                raise PodiumError(f"Pod: {page.unread}. They are needed to find the groups in use")
            for document in page.documents:
                pod = document.read(Pod)
                used.owners.update(owner.uid for owner in pod.metadata.ownerReferences or ())
                key = membership(pod, native_served=native)
                if key is not None and not pod.finished:
                    used.groups.add(key)
        return used

    def _path(self, ref: ObjectRef) -> str:
        for served in self._discovery.served:
            if (served.api_version, served.kind) == (ref.apiVersion, ref.kind):
                return f"{served.path(ref.namespace)}/{quote(ref.name, safe='')}"
        raise PodiumError(
            f"the cluster does not serve {ref.apiVersion} {ref.kind}. Enable it first: docs/upgrade.md"
        )

    def _failed(self, ref: ObjectRef) -> bool:
        done = self.done.get(ref)
        return done is not None and done.failed

    def _report_note(self, move: Move, text: str, *, failed: bool = False) -> None:
        self.done[move.item.object] = Done(text, failed)
        if failed and move.tree is not None:
            self._broken.setdefault(move.tree, "not deleted, because another object of its tree did not move")
        self._watcher.message(f"{move.item.object}: {text}")


def _kind_and_name(move: Move) -> tuple[str, str]:
    return move.item.object.kind, move.item.object.name


def _owned(move: Move, uids: dict[tuple[str, str], str]) -> Fields:
    """Return the copy with references to those of its owners that were copied too."""
    named = ((owner, (owner.get("kind", ""), owner.get("name", ""))) for owner in move.owners)
    owners = [{**owner, "uid": uids[key]} for owner, key in named if key in uids]
    if not owners:
        return move.copy
    metadata = move.copy["metadata"]
    return {
        **move.copy,
        "metadata": {**metadata, "ownerReferences": [*metadata.get("ownerReferences", ()), *owners]},
    }
