"""The volumes of a pod: refusals for its claims, the nodes that reach them, volumes for unbound claims."""

from podium.schedulerplugin.volumes.claims import claims_of
from podium.schedulerplugin.volumes.index import Volumes

__all__ = ["Volumes", "claims_of"]
