"""Minimum times for the reconciler: the list alone and the writes alone, each in a process.

`python -m bench.bare list KUBECONFIG` reads what a reconciler reads, in the same way. `python -m bench.bare
apply KUBECONFIG FILE` applies the conditions in a JSON file by group. It sends as many at a time as a
reconciler has writers. Both print their seconds, without the start of the process.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from podium.api.groups import CONTROLLER_MANAGER
from podium.controllers.manager import Rules
from podium.controllers.process import kinds, transform, wanted
from podium.kube.cache import InformerCache
from podium.kube.connection import Connection, connect

API = "scheduling.k8s.io/v1beta1"
GROUPS = f"/apis/{API}/podgroups"


async def listing(connection: Connection) -> float:
    """Read the cluster once."""
    began = time.perf_counter()
    cluster = InformerCache(
        connection, kinds(Rules()), transform=transform, only=wanted, log_event=lambda _event, _fields: None
    )
    following = asyncio.create_task(cluster.run())
    await cluster.ready()
    took = time.perf_counter() - began
    following.cancel()
    await asyncio.wait((following,))
    return took


async def applying(connection: Connection, conditions: dict[str, list[dict[str, Any]]]) -> float:
    """Apply conditions to groups (`namespace/name`), with the preconditions of the reconciler's writes."""
    stored = msgspec.json.decode(await connection.get(GROUPS))["items"]
    documents = [
        _document(meta, conditions[f"{meta['namespace']}/{meta['name']}"])
        for meta in (group["metadata"] for group in stored)
        if f"{meta['namespace']}/{meta['name']}" in conditions
    ]
    left = iter(documents)

    async def write() -> None:
        for document in left:
            meta = document["metadata"]
            path = f"/apis/{API}/namespaces/{meta['namespace']}/podgroups/{meta['name']}/status"
            await connection.apply(path, document, manager=CONTROLLER_MANAGER, force=True)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(Rules().writers):
            tasks.create_task(write())
    return time.perf_counter() - began


def _document(meta: dict[str, Any], conditions: list[dict[str, Any]]) -> dict[str, Any]:
    guarded = {key: meta[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": guarded, "status": {"conditions": conditions}}


async def main(work: Callable[[Connection], Awaitable[float]], kubeconfig: str) -> None:
    """Run one of the two and print its seconds."""
    async with connect(kubeconfig, None) as connection:
        print(await work(connection), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "list":
        uvloop.run(main(listing, sys.argv[2]))
    else:
        given = msgspec.json.decode(Path(sys.argv[3]).read_bytes())
        uvloop.run(main(lambda connection: applying(connection, given), sys.argv[2]))
