"""Rows of claims for devices: selectors that cost much, searches that take long, and very many claims."""

from typing import Any

from tests.support.hostile.table import Table
from tests.support.hostile.tenant import DEVICE_CLAIMS, Tenant

ROWS = Table()
_LIST = f"[{','.join(map(str, range(30)))}]"
# Nearly the highest cost that the API server accepts for a device.
_COSTLY = f"{_LIST}.all(a, {_LIST}.all(b, {_LIST}.all(c, a + b + c >= 0)))"
_PATTERN = "(a{1,30}){1,30}"


def _asking(
    tenant: Tenant, requests: list[Any], constraints: list[Any] | None = None, *, priority_class: str = ""
) -> None:
    """Create a claim and a pod that uses it."""
    spec = {"devices": {"requests": requests, "constraints": constraints or []}}
    claim = tenant.create(DEVICE_CLAIMS, {"metadata": {"name": tenant.name()}, "spec": spec})
    claims = [{"name": "devices", "resourceClaimName": claim}]
    tenant.pod(resourceClaims=claims, priorityClassName=priority_class or None)


def exactly(name: str, *expressions: str, count: int = 1) -> dict[str, Any]:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": count, "selectors": selectors}}


@ROWS.row
def costly_selectors(tenant: Tenant) -> None:
    """Claims whose selectors take a second for each device."""
    for number in range(20):
        _asking(tenant, [exactly("r", f"{number} >= 0 && {_COSTLY}")])


@ROWS.row
def costly_selectors_above_all(tenant: Tenant) -> None:
    """Such claims of pods of the highest priority, which are tried first."""
    for number in range(20):
        request = exactly("r", f"{number} >= 1 && {_COSTLY}")
        _asking(tenant, [request], priority_class="system-node-critical")


@ROWS.row
def many_costly_selectors(tenant: Tenant) -> None:
    """One claim with as many requests, each with as many costly selectors, as the API server accepts."""
    selectors = [f"{number} >= 0 && {_COSTLY}" for number in range(32)]
    _asking(tenant, [exactly(f"r{number}", *selectors) for number in range(32)])


def doubled(start: str, times: int, result: str) -> str:
    """Return an expression about a text that is added to itself so many times."""
    text = result.replace("?", f"a{times}")
    for level in range(times, 0, -1):
        text = f"cel.bind(a{level}, a{level - 1} + a{level - 1}, {text})"
    return f"cel.bind(a0, {start}, {text})"


@ROWS.row
def searches_from_the_end(tenant: Tenant) -> None:
    """Selectors that seek half of a long text from its end, in one call of the interpreter."""
    for number in range(10):
        sought = "?.lastIndexOf('ab' + ?.substring(0, 640000))"
        _asking(tenant, [exactly("r", doubled("'aaaaaaaaaa'", 17, f"{sought} == {number}"))])


@ROWS.row
def large_patterns(tenant: Tenant) -> None:
    """Selectors with regular expressions that have large programs."""
    for number in range(20):
        parts = [f"device.driver.matches('{_PATTERN}{number}x{part}')" for part in range(40)]
        _asking(tenant, [exactly("r", f"!({' || '.join(parts)})")])


@ROWS.row
def enormous_numbers(tenant: Tenant) -> None:
    """Selectors with numbers whose digits fill the memory, and with texts that a number is sought in."""
    for number, expression in enumerate(
        (
            "quantity('1e2000000000').isInteger()",
            "quantity('1e2000000000').isGreaterThan(quantity('1'))",
            "quantity('1e2000000000').add(1).isInteger()",
            "quantity('1e400').asApproximateFloat() > 1.0",
            f"double('{'1' * 9000}' + device.driver) > 1.0",
        )
    ):
        _asking(tenant, [exactly("r", f"{number} >= 0 && {expression}")])


@ROWS.row
def long_searches(tenant: Tenant) -> None:
    """Requests whose combinations are all to be tried."""
    requests = [exactly(f"r{number}", count=2) for number in range(12)]
    for _ in range(20):
        _asking(tenant, requests, [{"distinctAttribute": "gpu.example.com/uuid", "requests": []}])


@ROWS.row
def many_alternatives(tenant: Tenant) -> None:
    """Requests with as many alternatives as the API server accepts, of which only the last can be met."""
    last = {"name": "a7", "deviceClassName": "gpu"}
    none = [{"name": f"a{number}", "deviceClassName": "gpu", "count": 32} for number in range(7)]
    requests = [{"name": f"r{number}", "firstAvailable": [*none, last]} for number in range(32)]
    for _ in range(10):
        _asking(tenant, requests)


@ROWS.row
def many_device_claims(tenant: Tenant) -> None:
    """Pods with many claims, each for one device."""
    names = []
    for number in range(300):
        body = {
            "metadata": {"name": tenant.name(f"-{number}")},
            "spec": {"devices": {"requests": [exactly("r")]}},
        }
        names.append(tenant.create(DEVICE_CLAIMS, body))
    for _ in range(5):
        entries = [{"name": f"c{at}", "resourceClaimName": name} for at, name in enumerate(names[:200])]
        tenant.pod(resourceClaims=entries)


@ROWS.row
def large_configurations(tenant: Tenant) -> None:
    """Claims with as many parameters as the API server accepts, 94 MiB in all, some of which pods use."""
    opaque = {"driver": "gpu.example.com", "parameters": {"text": "x" * 10_000}}
    config = [{"opaque": opaque} for _ in range(32)]
    for number in range(300):
        spec = {"devices": {"requests": [exactly("r")], "config": config}}
        body = {"metadata": {"name": tenant.name(f"-{number}")}, "spec": spec}
        name = tenant.create(DEVICE_CLAIMS, body)
        if number % 30 == 0:
            tenant.pod(resourceClaims=[{"name": "devices", "resourceClaimName": name}])


@ROWS.row
def claims_that_do_not_exist(tenant: Tenant) -> None:
    """Pods that name claims and templates that do not exist."""
    for number in range(100):
        kind = "resourceClaimName" if number % 2 else "resourceClaimTemplateName"
        tenant.pod(resourceClaims=[{"name": "devices", kind: f"none-{number}"}])
