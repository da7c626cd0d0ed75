"""The errors of an allocation, with upstream's texts.

An error ends the scheduling attempt of the pod, because claims, classes or selectors are not valid. A node's
error only excludes the node. Devices that do not suffice are no error.
"""

from podium.errors import PodiumError


class AllocationError(PodiumError):
    """The claims cannot be allocated on any node until an object changes."""


class NodeAllocationError(AllocationError):
    """The claims cannot be allocated on this node because of its pools."""


class UnansweredAllocationError(AllocationError):
    """The claims cannot be allocated now, because a selector has no result; later it may have one."""
