"""Builders for our pods: the members of a gang, and running pods."""

from typing import Any

from tests.support.scheduling.rig import pod


def gang(name: str, *, size: int, cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> list[Any]:
    """Make pending members of a group."""
    return [pod(f"{name}-{at}", cpu, priority, group=name, **kwargs) for at in range(size)]


def running(name: str, where: str = "n1", cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> Any:
    """Make a running pod of ours."""
    return pod(name, cpu, priority, node=where, **kwargs)
