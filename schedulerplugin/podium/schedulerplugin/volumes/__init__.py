"""The volumes of a pod: kube-scheduler's refusals of a pod for its claims, and the nodes that reach them."""

from podium.schedulerplugin.volumes.claims import claims_of
from podium.schedulerplugin.volumes.index import Volumes

__all__ = ["Volumes", "claims_of"]
