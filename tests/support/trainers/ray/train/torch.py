"""A trainer that runs the loop in its own process."""

from collections.abc import Callable
from typing import Any, NamedTuple


class TorchTrainer(NamedTuple):
    loop: Callable[[], None]
    scaling_config: Any

    def fit(self) -> None:
        self.loop()
