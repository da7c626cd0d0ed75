"""Admit the objects of a file that is added to a cluster, as its API server and the webhook would.

Priority decides every plan, and admission decides the priority. The cluster's own classes, groups and
namespaces count, together with those of the file that were admitted before.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from podium.answers.expansion.added import converted
from podium.answers.expansion.selecting import selections
from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import GROUP_LABEL
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read
from podium.api.schedulable import Schedulable
from podium.cluster.state import ClusterState, Readable
from podium.documents.document import Document
from podium.groups import autogroups
from podium.rules import webhook
from podium.rules.admission import Operation, Profile, Request, review
from podium.rules.podiumrule import AdmissionPhase


class AddedAdmission:
    """The admission of a cluster (`state`) in a profile.

    `seen` holds the objects that admission reads; the caller adds those of the file. `labels` are the labels
    that a dump has, None for all. `notes` receives the warnings.
    """

    def __init__(
        self,
        state: ClusterState,
        seen: ClusterState,
        profile: Profile,
        labels: frozenset[str] | None,
        notes: list[str],
    ) -> None:
        self._state = state
        self._seen = seen
        self._profile = profile
        self._labels = labels
        self._notes = notes

    def admit(self, document: Document, value: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Return an object as a server would store it; `path` is its place in its document."""
        verdict = review(Request(operation=Operation.CREATE, object=value), self._seen, self._profile)
        if verdict.admitted is None:
            cause = verdict.causes[0]
            unread = self._state.unread.get(Kind.PRIORITY_CLASS) if verdict.awaits else None
            why = f" (PriorityClasses: {unread})" if unread else ""
            raise document.error(f"{cause.message}{why}", ".".join(filter(None, (path, cause.field))))
        self._notes += [
            f"{finding.object}: {finding.field}: {finding.message}" for finding in verdict.findings
        ]
        return verdict.admitted

    def stored(self, document: Document, read: Read, value: dict[str, Any]) -> Readable:
        """Return a class, Workload or group in neutral form, as it would be stored in place of an old one."""
        self._seen.remove(read.neutral(msgspec.convert(value, read.type)))
        admitted = self.admit(document, value)
        admitted["metadata"] |= {key: value["metadata"].get(key) for key in ("uid", "creationTimestamp")}
        neutral: Readable = read.neutral(msgspec.convert(admitted, read.type))
        return neutral

    def admit_pod(
        self, document: Document, value: dict[str, Any], path: str = ""
    ) -> tuple[Schedulable, bool]:
        """Return a pod as it would be stored, and whether it joined the group of its gang."""
        meta, joins = value["metadata"], False
        asks = autogroups.asks(ObjectMeta(labels=meta.get("labels")))
        if asks and self._profile.rules == "podium" and self._lets_ask(meta["namespace"]):
            value, joins = self._joining(value)
        admitted = self.admit(document, value, path)
        pod = converted(document, admitted, Schedulable, path)
        spec = f"{path}.spec".strip(".")
        self.check_labels(document, ((f"{spec}.{field}", key) for field, key in selections(pod.spec)))
        return pod, joins

    def check_labels(self, document: Document, asked: Iterable[tuple[str, str]]) -> None:
        """Raise an error for a selector on a label that the dump left out: its matches are unknown."""
        for field, key in asked:
            if self._labels is not None and key not in self._labels:
                problem = f"selects pods by {key}; the dump lacks that label. Plan against the live cluster"
                raise document.error(problem, field)

    def _joining(self, value: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return a pod that asks for a group as the webhook would change it, and whether it joins a group."""
        meta, spec = value["metadata"], dict(value.get("spec") or {})
        namespace = self._seen.namespaces.get(meta["namespace"])
        labels = (namespace.metadata.labels if namespace is not None else None) or {}
        scheduled = labels.get(autogroups.SCHEDULER_LABEL) == PODIUM_SCHEDULER
        phase = AdmissionPhase.SCHEDULED_GANG if scheduled else AdmissionPhase.GANG
        request = Request(operation=Operation.CREATE, object=value)
        verdict = webhook.review_phase(phase, request, self._seen, self._profile)
        joins = False
        for change in verdict.patch:
            if change["path"].startswith("/spec/"):
                spec[change["path"].removeprefix("/spec/")] = change["value"]
            elif change["path"] != "/spec":
                joins = True
                meta = {**meta, "labels": {**meta["labels"], GROUP_LABEL: change["value"]}}
        self._notes += [f"{finding.object}: {finding.message}" for finding in verdict.findings]
        return {**value, "metadata": meta, "spec": spec}, joins

    def _lets_ask(self, namespace: str) -> bool:
        found = self._seen.namespaces.get(namespace)
        if found is None and Kind.NAMESPACE in self._state.unread:
            self._notes.append(
                f"namespace {namespace} was not read; assuming that its label allows auto groups"
            )
            return True
        lets = autogroups.opted_in(found)
        if not lets:
            self._notes.append(
                f"namespace {namespace} does not allow auto groups (its label "
                f"{autogroups.NAMESPACE_LABEL} is not {autogroups.ENABLED}), so its pods join none"
            )
        return lets
