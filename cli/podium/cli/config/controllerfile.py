"""The configuration file of the reconciler; docs/reconciler.md explains it.

apiVersion: config.podium.dev/v1
kind: ControllerConfiguration
writeConditions: always
preemptionPolicyCondition: true
"""

from typing import Literal

import pydantic

from podium.controllers.divergence import Write
from podium.controllers.manager import Rules
from podium.documents.configfile import Strict, read_config


class ControllerModel(Strict):
    """The whole file."""

    apiVersion: Literal["config.podium.dev/v1"]
    kind: Literal["ControllerConfiguration"]
    writeConditions: Write = Write.DIVERGENT
    """The groups that get the condition: those that diverged at least once, or all."""
    preemptionPolicyCondition: pydantic.StrictBool = False
    """Whether the condition PodsNotMatchingPreemptionPolicy is maintained too."""
    groupProtection: pydantic.StrictBool = True
    """Whether Podium's groups are kept while pods need them; false removes the finalizer from all groups."""
    autoGroups: pydantic.StrictBool = True
    """Whether groups are created for pods that ask for a gang."""
    writers: pydantic.StrictInt = pydantic.Field(default=16, ge=1, le=256)
    """Maximum number of concurrent writes to groups."""


def read_rules(path: str) -> Rules:
    """Return the rules in a file. Raises PodiumError."""
    model = read_config(path, ControllerModel)
    return Rules(
        write=model.writeConditions,
        preemption_policy=model.preemptionPolicyCondition,
        protection=model.groupProtection,
        auto_groups=model.autoGroups,
        writers=model.writers,
    )
