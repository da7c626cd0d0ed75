"""Decoding as in Go: a wrong type is refused with the message of encoding/json, an unknown field is pruned.

A decoded document is a new dict in canonical form. Its keys are in Go's order. Zero values are omitted where
Go's JSON omits them; elsewhere `null` or an empty value is kept. Empty lists and maps are absent.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kubecel.goquote import go_quote
from podium.rules.schema import Document, Field, StructSchema


class WrongTypeError(Exception):
    """A value that Go could not decode: the text after `cannot be handled as a KIND: `, and its path."""

    def __init__(self, value: str, go_type: str, message: str = "") -> None:
        super().__init__(value)
        self.value = value
        self.go_type = go_type
        self.message = message
        self.struct = ""
        self.path = ""

    def within(self, struct: str, name: str) -> "WrongTypeError":
        """Add the field that contained the value; the innermost struct names the error, as in Go."""
        self.struct = self.struct or struct
        separator = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{name}{separator}{self.path}"
        return self

    def __str__(self) -> str:
        """Return the text of encoding/json; its path has no indices."""
        where = re.sub(r"\[\d+\]", "", self.path)
        into = f"Go struct field {self.struct}.{where} of type" if where else "Go value of type"
        return self.message or f"json: cannot unmarshal {self.value} into {into} {self.go_type}"


def decode(shape: StructSchema, raw: Mapping[str, Any], unknown: list[str]) -> Document:
    """Return the canonical form of a document; paths of fields unknown to Go are added to `unknown`.

    Raises WrongTypeError for the first value, in the document's order, that Go could not decode.
    """
    seen: Document = {}
    for name, value in raw.items():
        field = shape.by_name.get(name)
        if field is None:
            if shape.opened:
                seen[name] = value
            else:
                unknown.append(name)
        elif value is not None:
            before = len(unknown)
            try:
                seen[name] = field.read(field, value, unknown)
            except WrongTypeError as error:
                raise error.within(shape.go, name) from None
            if len(unknown) > before:
                _prefix(unknown, before, name)
    return _open_form(shape, seen) if shape.opened else _canonical(shape, seen)


def _canonical(shape: StructSchema, seen: Document) -> Document:
    document: Document = {}
    for field in shape.fields:
        name = field.name
        value = seen.get(name)
        if value or (value is not None and field.pointer):
            document[name] = value
        elif field.always:
            document[name] = zero(field)
    return document


def _open_form(shape: StructSchema, seen: Document) -> Document:
    for field in shape.fields:
        value = seen.get(field.name)
        if not value and not (value is not None and field.pointer):
            if field.always:
                seen[field.name] = zero(field)
            else:
                seen.pop(field.name, None)
    return seen


def zero(field: Field) -> Any:
    """Return the value that Go writes for an absent one: a struct's zero form, else the field's `zero`."""
    return decode(field.shape, {}, []) if field.shape is not None and field.zero is not None else field.zero


def time_error(shape: StructSchema, raw: Any) -> WrongTypeError | None:
    """Return an error for the first time in a document that cannot be parsed, before all other errors."""
    if type(raw) is not dict:
        return None
    for name, value in raw.items():
        field = shape.by_name.get(name)
        if field is None or value is None:
            continue
        if field.read is _read_time:
            try:
                field.read(field, value, [])
            except WrongTypeError as error:
                return error.within(shape.go, name)
        elif field.shape is not None:
            problem = _time_error_within(field.shape, value, many=field.many)
            if problem is not None:
                return problem.within(shape.go, name)
    return None


def _time_error_within(shape: StructSchema, value: Any, *, many: bool) -> WrongTypeError | None:
    if not many:
        return time_error(shape, value)
    for index, item in enumerate(value if type(value) is list else ()):
        problem = time_error(shape, item)
        if problem is not None:
            return problem.within("", f"[{index}]")
    return None


def _prefix(unknown: list[str], start: int, name: str) -> None:
    for index in range(start, len(unknown)):
        rest = unknown[index]
        unknown[index] = f"{name}{rest}" if rest.startswith("[") else f"{name}.{rest}"


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return "number"


def _read_text(field: Field, value: Any, _unknown: list[str]) -> str:
    if type(value) is not str:
        raise WrongTypeError(_json_type(value), field.go)
    return value


def _read_bool(field: Field, value: Any, _unknown: list[str]) -> bool:
    if type(value) is not bool:
        raise WrongTypeError(_json_type(value), field.go)
    return value


_LIMITS = {"int32": 2**31, "int64": 2**63}


def _read_integer(field: Field, value: Any, _unknown: list[str]) -> int:
    limit = _LIMITS[field.go]
    if type(value) is int and -limit <= value < limit:
        return value
    kind = _json_type(value)
    raise WrongTypeError(f"number {value}" if kind == "number" else kind, field.go)


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)").fullmatch
_ZERO_TIME = "0001-01-01T00:00:00Z"


def _read_time(_field: Field, value: Any, _unknown: list[str]) -> str | None:
    """Return metav1.Time, which is written in UTC and whole seconds; the zero time counts as absent."""
    if type(value) is not str:
        raise WrongTypeError(_json_type(value), "string")
    try:
        parsed = datetime.fromisoformat(value.replace(",", ".")) if _RFC3339(value) else None
        utc = parsed.astimezone(UTC).replace(tzinfo=None) if parsed is not None else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        message = f'parsing time {go_quote(value)} as "2006-01-02T15:04:05Z07:00"'
        raise WrongTypeError("string", "string", message)
    text = utc.isoformat(timespec="seconds") + "Z"
    return None if text == _ZERO_TIME else text


def _read_object(field: Field, value: Any, unknown: list[str]) -> Document:
    if type(value) is not dict:
        raise WrongTypeError(_json_type(value), field.go)
    assert field.shape is not None
    return decode(field.shape, value, unknown)


def _read_objects(field: Field, value: Any, unknown: list[str]) -> list[Document]:
    if type(value) is not list:
        raise WrongTypeError(_json_type(value), f"[]{field.go}")
    items = []
    for index, item in enumerate(value):
        before = len(unknown)
        try:
            items.append(_read_object(field, {} if item is None else item, unknown))
        except WrongTypeError as error:
            raise error.within("", f"[{index}]") if error.path else error from None
        if len(unknown) > before:
            _prefix(unknown, before, f"[{index}]")
    return items


def _read_texts(field: Field, value: Any, _unknown: list[str]) -> list[str]:
    if type(value) is not list:
        raise WrongTypeError(_json_type(value), field.go)
    for item in value:
        if item is not None and type(item) is not str:
            raise WrongTypeError(_json_type(item), "string")
    return [item or "" for item in value]


def _read_map(field: Field, value: Any, _unknown: list[str]) -> dict[str, str]:
    if type(value) is not dict:
        raise WrongTypeError(_json_type(value), field.go)
    for item in value.values():
        if item is not None and type(item) is not str:
            raise WrongTypeError(_json_type(item), "string")
    return {key: item or "" for key, item in value.items()}


def _read_anything(_field: Field, value: Any, _unknown: list[str]) -> Any:
    return value


# Constructors of fields, by Go type.


def text(name: str, go: str = "string", **options: Any) -> Field:
    """Return a string field; `go` names a string type of its own."""
    return Field(name, _read_text, go, zero="", **options)


def integer(name: str, go: str = "int32", **options: Any) -> Field:
    """Return an integer field: `int32` or `int64`."""
    return Field(name, _read_integer, go, zero=0, **options)


def boolean(name: str, **options: Any) -> Field:
    """Return a bool field."""
    return Field(name, _read_bool, "bool", zero=False, **options)


def time(name: str, **options: Any) -> Field:
    """Return a metav1.Time field."""
    return Field(name, _read_time, "v1.Time", **options)


def struct(name: str, shape: StructSchema, go: str, **options: Any) -> Field:
    """Return a field that is a struct by value: always present, as `{}` if nothing was written."""
    return Field(name, _read_object, go, shape=shape, zero={}, always=True, **options)


def pointer(name: str, shape: StructSchema, go: str, **options: Any) -> Field:
    """Return a field that is a pointer to a struct, so `{}` and absent differ."""
    return Field(name, _read_object, go, shape=shape, pointer=True, **options)


def objects(name: str, shape: StructSchema, go: str, *, key: str = "", **options: Any) -> Field:
    """Return a list of structs; with a `key` its items are matched with stored items by that field."""
    return Field(name, _read_objects, go, shape=shape, many=True, key=key, **options)


def texts(name: str, **options: Any) -> Field:
    """Return a list of strings."""
    return Field(name, _read_texts, "[]string", **options)


def mapping(name: str, **options: Any) -> Field:
    """Return a map of strings."""
    return Field(name, _read_map, "map[string]string", **options)


def anything(name: str, **options: Any) -> Field:
    """Return a field that no rule reads."""
    return Field(name, _read_anything, "", **options)
