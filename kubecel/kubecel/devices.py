"""Devices: the fields that selectors read, and the variable `device`, prepared once for all selectors.

The fields have the names of a device of a ResourceSlice. Functions take any object with these attributes, so
a caller passes the objects that it has already. `PlainDevice` is for callers without such objects, and is
what crosses to the process that evaluates.

Source: k8s.io/api/resource/v1, k8s.io/dynamic-resource-allocation/cel/compile.go (DeviceMatches).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import msgspec

from kubecel import quantities, versions
from kubecel.effort import READ
from kubecel.quantityscanner import QuantityTextError, RawQuantity
from kubecel.values import DomainMap, Map, TextMap


class AttributeLike(Protocol):
    """A value of a device: exactly one field is set, and lists since Kubernetes 1.37."""

    integer: int | None
    boolean: bool | None
    string: str | None
    version: str | None
    integers: list[int] | None
    booleans: list[bool] | None
    strings: list[str] | None
    versions: list[str] | None


class CapacityLike(Protocol):
    """An amount of a device, such as its memory."""

    value: RawQuantity


class DeviceLike(Protocol):
    """A device of a ResourceSlice; the names of attributes and capacities may lack the driver's domain."""

    allowMultipleAllocations: bool | None

    @property
    def attributes(self) -> Mapping[str, AttributeLike] | None:
        """Return the values by name."""

    @property
    def capacity(self) -> Mapping[str, CapacityLike] | None:
        """Return the amounts by name."""


class PlainAttribute(msgspec.Struct, gc=False):
    """An attribute as the API writes it in JSON."""

    integer: int | None = msgspec.field(name="int", default=None)
    boolean: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    integers: list[int] | None = msgspec.field(name="ints", default=None)
    booleans: list[bool] | None = msgspec.field(name="bools", default=None)
    strings: list[str] | None = None
    versions: list[str] | None = None


class PlainCapacity(msgspec.Struct, gc=False):
    """A capacity as the API writes it in JSON, without the policy of its requests."""

    value: RawQuantity = "0"


class PlainDevice(msgspec.Struct, gc=False):
    """A device as the API writes it in JSON, without the fields that no selector reads."""

    attributes: dict[str, PlainAttribute] | None = None
    capacity: dict[str, PlainCapacity] | None = None
    allowMultipleAllocations: bool | None = None


class UnsupportedDeviceError(Exception):
    """A device with an attribute that a minor cannot evaluate; every selector fails on it."""


PreparedDevice = Map | UnsupportedDeviceError


def prepare_device(driver: str, device: DeviceLike, minor: int) -> PreparedDevice:
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
    except QuantityTextError as error:
        return UnsupportedDeviceError(str(error))
    return TextMap.of_values(
        {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allowMultipleAllocations),
            "attributes": _domains(attributes),
            "capacity": _domains(capacity),
        }
    )


def preparing(device: DeviceLike) -> int:
    """Return the effort of preparing a device: a file may hold any number of attributes of any length."""
    attributes = (device.attributes or {}).values()
    values = [len(value.version or "") + len(value.strings or value.integers or ()) for value in attributes]
    lists = [sum(map(len, value.versions)) for value in attributes if value.versions is not None]
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


def _value(name: str, attribute: AttributeLike, minor: int) -> object:
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
