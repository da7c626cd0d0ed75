"""The configuration field with the weights of resources in the comparison of nodes."""

from collections.abc import Mapping
from typing import Annotated

import pydantic

from podium.api.podrequests import is_device
from podium.planner.scores import Weights
from podium.planner.settings import WEIGHTS

_KINDS = ("cpu", "memory", "accelerators")
DEFAULT: Mapping[str, int] = {kind: getattr(WEIGHTS, kind) for kind in _KINDS}


def _known(weights: Mapping[str, int]) -> Mapping[str, int]:
    for name in weights:
        if name not in _KINDS and not is_device(name):
            raise ValueError(
                f"{name!r} is not one of {', '.join(_KINDS)}, and not a device such as nvidia.com/gpu"
            )
    return weights


ResourceWeights = Annotated[
    Mapping[str, Annotated[pydantic.StrictInt, pydantic.Field(ge=0, le=100)]],
    pydantic.AfterValidator(_known),
    pydantic.Field(json_schema_extra={"x-key": "resource"}),
]


def weights_of(given: Mapping[str, int], base: Weights = WEIGHTS) -> Weights:
    """Return the weights in a file, with those of `base` for resources that it does not name."""
    kinds = {name: weight for name, weight in given.items() if name in _KINDS}
    named = dict(base.named) | {name: weight for name, weight in given.items() if name not in _KINDS}
    return base._replace(**kinds, named=tuple(sorted(named.items())))
