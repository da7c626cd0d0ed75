"""Import kubernetes_asyncio without its classes for the kinds of the API.

The package imports 900 modules with such classes, whichever of its modules is wanted. That takes 0.2 s and
35 MiB in every process that talks to an API server. Podium uses the library for kubeconfig files and TLS, and
has its own types for objects. So two packages of the library are created here without their `__init__`, which
runs when an attribute is wanted that Podium does not need.
"""

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_LIBRARY = "kubernetes_asyncio"
_CLIENT = f"{_LIBRARY}.client"


def without_models() -> None:
    """Make later imports of the library's modules fast; has no effect if it was imported already."""
    if _LIBRARY in sys.modules or find_spec(_LIBRARY) is None:
        return
    library, client = _bare(_LIBRARY), _bare(_CLIENT)
    vars(library)["client"] = client
    # The names that the library's own modules import from there. They need ApiClient in functions only that
    # Podium does not call.
    vars(client)["Configuration"] = importlib.import_module(f"{_CLIENT}.configuration").Configuration
    vars(client)["ApiClient"] = object


def _bare(name: str) -> ModuleType:
    """Register a package without running its `__init__`."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module, loader = module_from_spec(spec), spec.loader

    def attribute(wanted: str) -> Any:
        """Return a submodule, or an attribute of the package, whose `__init__` runs for that."""
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        if find_spec(f"{name}.{wanted}") is not None:
            return importlib.import_module(f"{name}.{wanted}")
        del vars(module)["__getattr__"]
        loader.exec_module(module)
        return getattr(module, wanted)

    vars(module)["__getattr__"] = attribute
    sys.modules[name] = module
    return module
