"""A device as the value of the variable `device`, prepared once for all selectors.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go (DeviceMatches).
"""

from dataclasses import replace

from podium.api.devices import Device, DeviceAttribute
from podium.api.quantity import QuantityError
from podium.cel import quantities, versions
from podium.cel.effort import READ
from podium.cel.values import DomainMap, Map, TextMap


class UnsupportedDeviceError(Exception):
    """A device with an attribute that a minor cannot evaluate; every selector fails on it."""


PreparedDevice = Map | UnsupportedDeviceError


def prepare_device(driver: str, device: Device, minor: int) -> PreparedDevice:
    """Return a device of a driver for selectors of a minor; names without a domain get the driver's."""
    attributes: dict[str, dict[str, object]] = {}
    capacity: dict[str, dict[str, object]] = {}
    try:
        for name, attribute in (device.attributes or {}).items():
            domain, identifier = _split(name, driver)
            attributes.setdefault(domain, {})[identifier] = _value(name, attribute, minor)
        for name, amount in (device.capacity or {}).items():
            domain, identifier = _split(name, driver)
            capacity.setdefault(domain, {})[identifier] = quantities.read(amount.value)
    except UnsupportedDeviceError as error:
        return error
    except QuantityError as error:
        return UnsupportedDeviceError(str(error))
    return TextMap.of_values(
        {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allowMultipleAllocations),
            "attributes": _domains(attributes),
            "capacity": _domains(capacity),
        }
    )


def preparing(device: Device) -> int:
    """Return the effort of preparing a device: a file may hold any number of attributes of any length."""
    attributes = (device.attributes or {}).values()
    values = [len(each.version or "") + len(each.strings or each.integers or ()) for each in attributes]
    lists = [sum(map(len, each.versions)) for each in attributes if each.versions is not None]
    return 3 * (len(values) + len(device.capacity or ())) + (sum(values) + sum(lists)) // READ


def with_own_quantities(value: object) -> object:
    """Return a prepared device for one evaluation, which may change its quantities."""
    if isinstance(value, quantities.QuantityValue):
        return replace(value)
    if isinstance(value, Map):
        entries = {key: (name, with_own_quantities(held)) for key, (name, held) in value.entries.items()}
        return type(value)(entries)
    return value


def _domains(values: dict[str, dict[str, object]]) -> Map:
    return DomainMap.of_values({domain: TextMap.of_values(inner) for domain, inner in values.items()})


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _value(name: str, attribute: DeviceAttribute, minor: int) -> object:
    if minor >= 37:
        for items in (attribute.integers, attribute.booleans, attribute.strings):
            if items is not None:
                return list[object](items)
        if attribute.versions is not None:
            return [_version(name, text) for text in attribute.versions]
    for single in (attribute.integer, attribute.boolean, attribute.string):
        if single is not None:
            return single
    if attribute.version is not None:
        return _version(name, attribute.version)
    raise UnsupportedDeviceError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> versions.VersionValue:
    try:
        return versions.parse(text)
    except versions.VersionError as error:
        raise UnsupportedDeviceError(f"attribute {name}: parse semantic version: {error}") from None
