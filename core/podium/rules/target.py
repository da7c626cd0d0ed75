"""The writes at which a rule is checked: a webhook must receive these for the rule to work.

Rules carry their targets. The registration with the API server, the bindings of CEL policies and the
evaluation in `podium.rules.webhook` therefore come from one table and cannot drift apart.
"""

from enum import StrEnum
from typing import NamedTuple

from podium.rules.context import Operation


class AdmissionPhase(StrEnum):
    """The request of a webhook: the two kinds of admission, and, as mutations, a gang for a new pod.

    The pod's namespace selects which of the last two is sent.
    """

    MUTATE = "mutate"
    VALIDATE = "validate"
    GANG = "gang"
    SCHEDULED_GANG = "scheduled-gang"


class WriteTarget(NamedTuple):
    """A kind of write; `subresource` is empty or `status`.

    `members` means that only pods in a group need to be sent, before or after the write. An own rule's
    targets under MUTATE are for the level `inherit` only.
    """

    kind: str
    operation: Operation
    phase: AdmissionPhase
    subresource: str = ""
    members: bool = False
