"""As much of PyTorch as the example reads, for one rank: the wheel has 800 MB."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class _Linear:
    def __init__(self, _inputs: int, _outputs: int) -> None:
        self._weights: dict[str, Any] = {}

    def __call__(self, _values: Any) -> Any:
        return SimpleNamespace(sum=lambda: SimpleNamespace(backward=lambda: None))

    def state_dict(self) -> dict[str, Any]:
        return self._weights

    def load_state_dict(self, weights: dict[str, Any]) -> None:
        self._weights = weights


nn = SimpleNamespace(Linear=_Linear)


def ones(count: int) -> list[float]:
    return [1.0] * count


def tensor(value: int) -> Any:
    return SimpleNamespace(item=lambda: value)


def save(state: Any, file: str) -> None:
    Path(file).write_text(json.dumps(state), encoding="utf-8")


def load(file: str) -> Any:
    return json.loads(Path(file).read_text(encoding="utf-8"))
