"""The writes of scheduling alone: the maximum rate of a scheduler with Podium's writes.

`python -m bench.barewrites KUBECONFIG FILE` carries out a list of `Step` in a JSON file, with Podium's own
writes. The order is that of a preemption: all deletes but one, then that one, then binds. Steps do not wait
for each other. The process sends no events and marks no groups.
"""

import asyncio
import random
import sys
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop
from bench.field import NAMESPACE

from podium.kube.connection import connect
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import PodRef


class Victim(NamedTuple):
    """A pod to evict."""

    name: str
    uid: str


class Place(NamedTuple):
    """A pod to bind, and its node."""

    name: str
    uid: str
    node: str


class Step(NamedTuple):
    """The writes of one decision."""

    places: list[Place]
    victims: list[Victim]


async def carry_out(step: Step, writes: Writes) -> None:
    """Do the writes of one step."""
    pods = [PodRef(NAMESPACE, victim.name, victim.uid) for victim in step.victims]
    binds = [(PodRef(NAMESPACE, place.name, place.uid), place.node) for place in step.places]
    if pods:
        await asyncio.gather(*(writes.delete(pod) for pod in pods[:-1]))
        await writes.delete(pods[-1])
    await asyncio.gather(*(writes.bind(pod, node) for pod, node in binds))


async def main(kubeconfig: str, steps: list[Step]) -> None:
    """Carry out all steps."""
    async with connect(kubeconfig, None) as connection:
        writes = Writes(
            connection,
            lambda: inf,
            sleep=asyncio.sleep,
            random=random.random,
            counted=lambda _what, _how: None,
        )
        await asyncio.gather(*(carry_out(step, writes) for step in steps))


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=list[Step])
    uvloop.run(main(sys.argv[1], given))
