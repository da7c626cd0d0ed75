"""What is to be told about an object, as a value: deciding what to tell needs no API server (kube/events)."""

from typing import Literal

import msgspec

from podium.findings import ObjectRef


class Note(msgspec.Struct, frozen=True):
    """One Event in the making: `reason` and `action` in CamelCase; `text` is cut where an Event's must be.

    `token` is the same for what is the same note, whoever sends it and however often: it becomes one Event.
    """

    regarding: ObjectRef
    uid: str
    resource_version: str
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    text: str
    token: str
