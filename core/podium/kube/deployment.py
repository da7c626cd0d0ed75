"""The Deployment of a process: whether an administrator turned it off, and whether a replica is available."""

from typing import Any, NamedTuple

from podium import jsontext
from podium.errors import PodiumError
from podium.kube.connection import Connection, get_or_none
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within

_READ_SECONDS = 5.0


class DeploymentState(NamedTuple):
    """`is_off`: deleted, being deleted, or scaled to 0. `is_available`: at least one replica is available."""

    is_off: bool
    is_available: bool


def state_of(deployment: dict[str, Any] | None) -> DeploymentState:
    """Return the state of a Deployment; None is a deleted one."""
    if deployment is None:
        return DeploymentState(is_off=True, is_available=False)
    leaving = deployment["metadata"].get("deletionTimestamp") is not None
    return DeploymentState(
        is_off=leaving or deployment["spec"].get("replicas") == 0,
        is_available=((deployment.get("status") or {}).get("availableReplicas") or 0) >= 1,
    )


async def read_state(connection: Connection, namespace: str, name: str) -> DeploymentState:
    """Read a Deployment. Raises PodiumError."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    body = await get_or_none(connection, path)
    return state_of(None if body is None else jsontext.parse(body, dict[str, Any]))


async def is_turned_off(
    connection: Connection, deployment: tuple[str, str] | None, log_event: EventLogger
) -> bool:
    """Return whether a Deployment (namespace, name) is off; one that cannot be read, and None, is not."""
    if deployment is None:
        return False
    try:
        return (await within(_READ_SECONDS, read_state(connection, *deployment))).is_off
    except (PodiumError, TimeoutError) as error:
        log_event("deployment not read", {"error": str(error)})
        return False
