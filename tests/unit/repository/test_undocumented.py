"""Undocumented parts of the libraries for HTTP and the event loop are used in three modules only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOTS = (
    "core",
    "kubecel",
    "cli",
    "webhooks",
    "controllers",
    "planner",
    "schedulerplugin",
    "answers",
    "simulation",
)
LIBRARIES = ("aiohttp", "kubernetes_asyncio", "uvloop")
# The modules that the record lists, with all that they use.
ALLOWED = {
    "core/podium/kube/session.py": {"a class derived from TCPConnector"},
    "core/podium/runtime/http1.py": {"aiohttp.http"},
    "core/podium/kube/kubeconfig.py": {
        "kubernetes_asyncio.client.configuration",
        "kubernetes_asyncio.client.rest",
        "kubernetes_asyncio.config.kube_config",
        "_ssl",
    },
}
# The classes of aiohttp that a program could derive from for a hook.
_BASES = frozenset(("TCPConnector", "BaseConnector", "ClientSession", "ClientRequest", "ClientResponse"))


def undocumented(text: str) -> Iterator[str]:
    """Yield the undocumented modules, base classes and attributes that a module uses.

    The documented modules are the libraries themselves, aiohttp.web and kubernetes_asyncio.config. The linter
    refuses private attributes of other objects (SLF001), except by getattr.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if _is_submodule(each.name))
            case ast.ImportFrom(module=str(module)) if _is_submodule(module):
                yield module
            case ast.ImportFrom(module=str(module), names=names) if module in LIBRARIES:
                yield from (f"{module}.{each.name}" for each in names if each.name.startswith("_"))
            case ast.ClassDef(bases=bases):
                written = {ast.unparse(each).rpartition(".")[2] for each in bases}
                yield from (f"a class derived from {each}" for each in written & _BASES)
            case ast.Call(func=ast.Name("getattr" | "setattr"), args=[_, ast.Constant(str(attr)), *_]):
                if _is_private(attr):
                    yield attr
            case _:
                pass


def _is_submodule(module: str) -> bool:
    library, dot, _ = module.partition(".")
    return bool(dot) and library in LIBRARIES and module not in ("aiohttp.web", "kubernetes_asyncio.config")


def _is_private(attr: str) -> bool:
    return attr.startswith("_") and not attr.startswith("__")


def test_undocumented_parts_are_used_where_the_record_lists_them() -> None:
    found: dict[str, set[str]] = {}
    for path in (path for root in ROOTS for path in (ROOT / root).rglob("*.py")):
        if used := set(undocumented(path.read_text("utf-8"))):
            found[str(path.relative_to(ROOT))] = used
    assert found == ALLOWED
    record = (ROOT / "docs" / "decisions" / "0003-library-gaps.md").read_text("utf-8")
    assert [path for path in ALLOWED if f"(../../{path})" not in record] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import aiohttp.connector", "aiohttp.connector"),
        ("from aiohttp.client_reqrep import ClientRequest", "aiohttp.client_reqrep"),
        ("from uvloop import _noop", "uvloop._noop"),
        ("class A(aiohttp.ClientSession): pass", "a class derived from ClientSession"),
        ("getattr(session, '_connector')", "_connector"),
    ],
)
def test_the_check_finds_undocumented_parts(text: str, expected: str) -> None:
    assert [*undocumented(text)] == [expected]


@pytest.mark.parametrize(
    "text",
    ["import aiohttp", "from aiohttp import web", "from kubernetes_asyncio import config", "t._replace(a=1)"],
)
def test_the_check_accepts_documented_parts(text: str) -> None:
    assert [*undocumented(text)] == []
