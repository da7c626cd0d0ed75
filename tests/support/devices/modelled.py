"""Builders of claims and slices for explanations: requests in JSON, and devices that have models."""

from typing import Any

import msgspec
from tests.support.devices.scene import DRIVER, devices_of

from podium.api.devices import ResourceClaim, ResourceSlice

# A constraint that the devices of a claim have one model.
SAME = {"constraints": [{"matchAttribute": f"{DRIVER}/model"}]}


def model(expression: str) -> list[dict[str, Any]]:
    """Return a selector on the model of a device."""
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].model {expression}'}}]


def modelled(node: str, *models: str, **fields: Any) -> ResourceSlice:
    """Make a slice with one device of each model."""
    devices = [
        {"name": f"gpu-{at}", "attributes": {"model": {"string": each}}, **fields}
        for at, each in enumerate(models)
    ]
    return devices_of(node, 0, devices=devices)


def spec(*requests: dict[str, Any], **fields: Any) -> ResourceClaim:
    """Make a claim from requests in JSON."""
    body = {"devices": {"requests": list(requests), **fields}}
    return msgspec.convert({"metadata": {"name": "c", "namespace": "t"}, "spec": body}, ResourceClaim)


def exact(name: str, count: int | None = 1, **fields: Any) -> dict[str, Any]:
    """Make a request for devices of the class."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": count, **fields}}
