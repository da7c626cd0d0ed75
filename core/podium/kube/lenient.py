"""Decode JSON field by field, so that one invalid field leaves the others readable.

A strict decoder refuses a whole pod for one field of a wrong type. A user who may create such a pod could
then hide the resources that the pod uses on its node. Here each struct, list and mapping is decoded part by
part. A part that cannot be decoded keeps its value from the last successful decoding, or else its default.
"""

import types
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from podium import jsontext

_Raw = msgspec.Raw | bytes


class _BrokenError(Exception):
    """A value of which no part can be decoded."""


def decode(raw: _Raw, target: Any, spare: _Raw | None = None) -> Any:
    """Return the decodable parts of a JSON value as a type; `spare` is an earlier version of the value.

    Raises msgspec.DecodeError when nothing can be decoded.
    """
    try:
        return _decode(raw, target, spare)
    except _BrokenError:
        raise msgspec.DecodeError("no part of it can be decoded") from None


def _decode(raw: _Raw, target: Any, spare: _Raw | None) -> Any:
    value = _strict(raw, target)
    if value is not msgspec.UNSET:
        return value
    for choice in _choices(target):
        origin, arguments = get_origin(choice), get_args(choice)
        if isinstance(choice, type) and issubclass(choice, msgspec.Struct):
            members = _strict(raw, dict[str, msgspec.Raw])
            if isinstance(members, dict):
                return _struct(members, choice, spare)
        elif origin is list:
            elements = _strict(raw, list[msgspec.Raw])
            if isinstance(elements, list):
                return _list(elements, arguments[0], spare)
        elif origin is dict:
            members = _strict(raw, dict[str, msgspec.Raw])
            if isinstance(members, dict):
                return _mapping(members, arguments[1], spare)
    raise _BrokenError


def _struct(members: dict[str, msgspec.Raw], target: type[msgspec.Struct], spare: _Raw | None) -> Any:
    before = _parts(spare, dict[str, msgspec.Raw])
    values = {}
    for field in msgspec.structs.fields(target):
        text = members.get(field.encode_name)
        if text is not None:
            value = _part(text, field.type, before.get(field.encode_name))
            if value is not msgspec.UNSET:
                values[field.name] = value
    try:
        return target(**values)
    except TypeError:
        # A field without a default is missing or broken.
        raise _BrokenError from None


def _list(elements: list[msgspec.Raw], target: Any, spare: _Raw | None) -> list[Any]:
    before = _parts(spare, list[msgspec.Raw])
    values = []
    for index, text in enumerate(elements):
        value = _part(text, target, before[index] if index < len(before) else None)
        if value is not msgspec.UNSET:
            values.append(value)
    return values


def _mapping(members: dict[str, msgspec.Raw], target: Any, spare: _Raw | None) -> dict[str, Any]:
    """Return a decoded mapping. An entry that was never decodable keeps its JSON text if text is allowed.

    An invalid quantity is then treated like a wrongly written one, which every reader handles.
    """
    before = _parts(spare, dict[str, msgspec.Raw])
    values = {}
    for name, text in members.items():
        value = _part(text, target, before.get(name))
        if value is not msgspec.UNSET:
            values[name] = value
        elif str in _choices(target):
            values[name] = bytes(memoryview(text)).decode(errors="replace")
    return values


def _part(text: msgspec.Raw, target: Any, spare: _Raw | None) -> Any:
    """Return the decodable parts of a value, else its earlier version, else UNSET."""
    try:
        return _decode(text, target, spare)
    except _BrokenError:
        return msgspec.UNSET if spare is None else _strict(spare, target)


def _parts(spare: _Raw | None, target: Any) -> Any:
    """Return the parts of an earlier value; empty if there is none of this type."""
    value = msgspec.UNSET if spare is None else _strict(spare, target)
    return target() if value is msgspec.UNSET else value


def _strict(raw: _Raw, target: Any) -> Any:
    """Return the strictly decoded value, or UNSET if it cannot be decoded."""
    try:
        return jsontext.parse(raw, target)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.UNSET


def _choices(target: Any) -> tuple[Any, ...]:
    """Return the types of a union; a single type without its annotation."""
    origin = get_origin(target)
    if origin is Annotated:
        return _choices(get_args(target)[0])
    if origin in (Union, types.UnionType):
        return tuple(choice for member in get_args(target) for choice in _choices(member))
    return (target,)
