"""Where a rule is checked: which writes of which kind a webhook must be sent so that the rule can speak.

Rules carry their targets, so what is registered with the API server, what a policy in CEL binds to and what
`podium.rules.webhook` judges come from one table and cannot drift apart.
"""

from enum import StrEnum
from typing import NamedTuple

from podium.rules.case import Operation


class Phase(StrEnum):
    """What a webhook asks: the two kinds of admission, and, as mutations too, a gang for a new pod.

    Of the last two that is asked which the pod's namespace wants.
    """

    MUTATE = "mutate"
    VALIDATE = "validate"
    GANG = "gang"
    SCHEDULED_GANG = "scheduled-gang"


class Target(NamedTuple):
    """One kind of write; `subresource` is empty or `status`.

    `members` says that only pods need to be sent which belong to a group, before the write or after it. What
    an own rule has under MUTATE is for the level `inherit` only.
    """

    kind: str
    operation: Operation
    phase: Phase
    subresource: str = ""
    members: bool = False
