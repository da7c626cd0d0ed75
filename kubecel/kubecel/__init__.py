"""CEL as Kubernetes evaluates it: device selectors with upstream's verdicts, costs and texts of errors.

Each name below loads its module when it is first used. README.md describes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubecel.devices import DeviceLike, PlainAttribute, PlainCapacity, PlainDevice
    from kubecel.errors import CelError, SelectorCompileError, SelectorRuntimeError, UnansweredSelectorError
    from kubecel.process import SelectorProcess
    from kubecel.results import DeviceResults, SelectorAnswers
    from kubecel.selector import CompiledSelector, Evaluation, compile_selector, evaluate_devices

__all__ = [
    "CelError",
    "CompiledSelector",
    "DeviceLike",
    "DeviceResults",
    "Evaluation",
    "PlainAttribute",
    "PlainCapacity",
    "PlainDevice",
    "SelectorAnswers",
    "SelectorCompileError",
    "SelectorProcess",
    "SelectorRuntimeError",
    "UnansweredSelectorError",
    "compile_selector",
    "evaluate_devices",
]
# Each imports those before it, so a search in this order loads no module that the name does not need.
_MODULES = ("errors", "devices", "selector", "process", "results")


def __getattr__(name: str) -> object:
    """Return a public name from its module, so that a caller of one module does not load all."""
    if name in __all__:
        for module in _MODULES:
            loaded = import_module(f"{__name__}.{module}")
            if hasattr(loaded, name):
                return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
