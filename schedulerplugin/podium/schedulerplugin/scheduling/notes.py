"""Builds the scheduler's events with kube-scheduler's reasons, actions and messages, because tools know them.

One event reports a plan, where upstream has one for each victim: a gang that preempts another gang is one
piece of news. The event is in the namespace of the first victim. Its readers need not know anything of the
preemptor's namespace, so the preemptor is named by its UID.

The same news has the same token in every process and every time.
"""

from typing import Final, Literal

import msgspec

from podium.findings import ObjectRef
from podium.note import Note
from podium.schedulerplugin.scheduling.conditions import group_of
from podium.schedulerplugin.scheduling.effects import Evict, PodRef
from podium.view import View
from podium.wording import count, work

SCHEDULED: Final = "Scheduled"
FAILED: Final = "FailedScheduling"
PREEMPTED: Final = "Preempted"


def scheduled(pod: PodRef, node: str) -> Note:
    """Return the event of a pod that was bound."""
    text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
    return _of_pod(pod, "Normal", SCHEDULED, "Binding", text)


def failed(pod: PodRef, message: str) -> Note:
    """Return the event of a pod that found no place."""
    return _of_pod(pod, "Warning", FAILED, "Scheduling", message)


def preempted(view: View, evict: Evict) -> Note:
    """Return the event of a preemption, about its first unit: the group if the view has it, else its pod."""
    preemptor, unit = evict.preemptor, evict.units[0]
    gone = f"{count(len(evict.victims), 'pod')} in {count(len(evict.units), 'unit')}"
    lost = f", {work(evict.work)} lost" if evict.work else ""
    text = f"Preempted by {preemptor.kind} {preemptor.uid} on node {evict.domain}, {gone}{lost}"
    group = group_of(view, unit)
    note = _of_pod(unit.pods[0], "Normal", PREEMPTED, "Preempting", text)
    # A leader that resumes the plan counts only the remaining victims.
    note = msgspec.structs.replace(note, token=f"{unit.uid}/{PREEMPTED}/{preemptor.uid}")
    return note if group is None else msgspec.structs.replace(note, regarding=group.ref, uid=unit.uid)


def _of_pod(pod: PodRef, kind: Literal["Normal", "Warning"], reason: str, action: str, text: str) -> Note:
    return Note(
        regarding=ObjectRef("v1", "Pod", pod.namespace, pod.name),
        uid=pod.uid,
        resource_version="",
        type=kind,
        reason=reason,
        action=action,
        text=text,
        token=f"{pod.uid}/{reason}/{text}",
    )
