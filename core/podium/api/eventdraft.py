"""The draft of an Event as a value: deciding what to report needs no API server (kube/events)."""

from typing import Literal

import msgspec

from podium.api.findings import ObjectRef


class EventDraft(msgspec.Struct, frozen=True):
    """The draft of an Event: `reason` and `action` in CamelCase.

    `text` is cut to the length limit of an Event. Equal notes have the same `token`, whichever process sends
    them and however often. They become one Event.
    """

    regarding: ObjectRef
    uid: str
    resource_version: str
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    text: str
    token: str
