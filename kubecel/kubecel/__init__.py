"""CEL as Kubernetes evaluates it: device selectors with upstream's verdicts, costs and texts of errors.

The names below load their module when they are first used. Source: kubecel/README.md describes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubecel.devices import Device, DeviceAttribute, DeviceCapacity, DeviceLike
    from kubecel.errors import CelError, SelectorCompileError, SelectorRuntimeError, UnansweredSelectorError
    from kubecel.process import SelectorProcess
    from kubecel.results import DeviceResults, SelectorAnswers
    from kubecel.selector import CompiledSelector, Evaluation, compile_selector, evaluate_devices

__all__ = [
    "CelError",
    "CompiledSelector",
    "Device",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceLike",
    "DeviceResults",
    "Evaluation",
    "SelectorAnswers",
    "SelectorCompileError",
    "SelectorProcess",
    "SelectorRuntimeError",
    "UnansweredSelectorError",
    "compile_selector",
    "evaluate_devices",
]
_MODULES = {
    "devices": ("Device", "DeviceAttribute", "DeviceCapacity", "DeviceLike"),
    "errors": ("CelError", "SelectorCompileError", "SelectorRuntimeError", "UnansweredSelectorError"),
    "process": ("SelectorProcess",),
    "results": ("DeviceResults", "SelectorAnswers"),
    "selector": ("CompiledSelector", "Evaluation", "compile_selector", "evaluate_devices"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Return a public name from its module, so that a caller of one module does not load all."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
