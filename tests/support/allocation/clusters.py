"""Small generated questions to the allocator, whose selectors are in the table of `selecting`."""

from random import Random
from typing import Any

from tests.support.devices.cases import random_question
from tests.support.devices.offers import GPU, NIC, NODES

_SELECTORS = (
    f'device.driver == "{GPU}"',
    f'device.attributes["{GPU}"].model == "a"',
    f'device.attributes["{GPU}"].healthy',
    f'device.attributes["{NIC}"].model == "b"',
    "device.allowMultipleAllocations == true",
)


def cluster(random: Random) -> dict[str, Any]:
    """Return a case; equal states of `random` give equal cases."""
    return random_question(random, _SELECTORS)


def countable(random: Random) -> dict[str, Any]:
    """Return a case that can be counted: devices of two models, and requests for one model or for both."""
    devices = [
        {"name": f"dev-{at}", "attributes": {"model": {"string": random.choice("xy")}}}
        for at in range(random.randint(1, 8))
    ]
    driver = "driver-a"
    used = [
        {"driver": driver, "pool": "pool", "device": each["name"]}
        for each in devices
        if random.random() < 0.3
    ]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    model = {"cel": {"expression": f'device.attributes["{driver}"].model == "x"'}}
    claims = [
        {
            "metadata": {"name": f"claim-{at}"},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": f"r{number}",
                            "exactly": {
                                "deviceClassName": random.choice(("any", "x")),
                                "allocationMode": "ExactCount",
                                "count": random.randint(1, 3),
                            },
                        }
                        for number in range(random.randint(1, 3))
                    ],
                    "constraints": random.choice(([], [{"matchAttribute": f"{driver}/model"}])),
                }
            },
        }
        for at in range(random.randint(1, 2))
    ]
    return {
        "node": {"metadata": {"name": NODES[0]}},
        "slices": [
            {
                "metadata": {"name": "slice"},
                "spec": {"driver": driver, "nodeName": NODES[0], "pool": pool, "devices": devices},
            }
        ],
        "classes": [
            {"metadata": {"name": "any"}, "spec": {}},
            {"metadata": {"name": "x"}, "spec": {"selectors": [model]}},
        ],
        "claims": claims,
        "allocated": {"devices": used, "shared": [], "consumed": []},
    }
