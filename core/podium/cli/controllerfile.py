"""The file that says what the reconciler does; docs/reconciler.md explains it.

apiVersion: config.podium.dev/v1
kind: ControllerConfiguration
writeConditions: always
preemptionPolicyCondition: true
"""

from typing import Literal

import pydantic

from podium.cli.configfile import Strict, read_config
from podium.controllers.divergence import Write
from podium.controllers.manager import Rules


class ControllerModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["ControllerConfiguration"]
    writeConditions: Write = Write.DIVERGENT
    """Which groups have the condition: those that diverged once, or all."""
    preemptionPolicyCondition: pydantic.StrictBool = False
    """Whether PodsNotMatchingPreemptionPolicy is kept as well."""
    groupProtection: pydantic.StrictBool = True
    """Whether Podium's groups are kept while pods need them; false takes the finalizer from all."""
    autoGroups: pydantic.StrictBool = True
    """Whether groups are made for pods that ask for a gang."""
    writers: pydantic.StrictInt = pydantic.Field(default=16, ge=1, le=256)
    """How many groups are written at a time."""


def read_rules(path: str) -> Rules:
    """Read a file. Raises PodiumError."""
    model = read_config(path, ControllerModel)
    return Rules(
        write=model.writeConditions,
        preemption_policy=model.preemptionPolicyCondition,
        protection=model.groupProtection,
        auto_groups=model.autoGroups,
        writers=model.writers,
    )
