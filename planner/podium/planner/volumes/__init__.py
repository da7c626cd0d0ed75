"""The volumes of a pod: refusals for its claims, the nodes that reach them, volumes for unbound claims."""

from podium.planner.volumes.claims import claims_of
from podium.planner.volumes.index import Volumes

__all__ = ["Volumes", "claims_of"]
