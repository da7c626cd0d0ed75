"""The checks that tables are made of: one function for each of apimachinery's declarative validators.

A check gets (path, new, old, write) and gives errors, or None to go on. Used among a field's `stops`, an
empty list ends the field without an error.
"""

from collections.abc import Callable, Sequence
from typing import Any

from podium.rules import fields
from podium.rules.fields import Cause, FieldError
from podium.rules.shape import Check, Write, by_key

Errors = Sequence[FieldError] | None


def required(cause: Cause) -> Check:
    """Refuse an absent value, and zero: for Go a `minCount: 0` is a missing one."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        return None if new else [fields.required(cause, path)]

    return check


def required_pointer(cause: Cause) -> Check:
    """Refuse an absent value only; `{}` was written."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        return [fields.required(cause, path)] if new is None else None

    return check


def immutable(cause: Cause) -> Check:
    """Refuse any change on update, set to unset and unset to set included (equal values never get here)."""

    def check(path: str, _new: Any, _old: Any, write: Write) -> Errors:
        return [fields.invalid(cause, path, None, "field is immutable")] if write.update else None

    return check


def no_set_no_unset(cause: Cause) -> Check:
    """Refuse, on update, that a value comes or goes; changing what is inside is another matter."""

    def check(path: str, new: Any, old: Any, write: Write) -> Errors:
        if not write.update or (new is None) == (old is None):
            return None
        what = "field cannot be set once created" if old is None else "field cannot be cleared once set"
        return [fields.invalid(cause, path, None, what)]

    return check


def no_add_no_remove(cause: Cause, key: str) -> Check:
    """Refuse, on update, that items of a list-map come or go."""

    def check(path: str, new: Any, old: Any, write: Write) -> Errors:
        if not write.update:
            return None
        here, there = by_key(new, key), by_key(old, key)
        errors = [
            fields.forbidden(cause, f"{path}[{index}]", "item may not be added")
            for index, item in enumerate(new or ())
            if item.get(key) not in there
        ]
        errors += [
            fields.forbidden(cause, path, "item may not be removed")
            for item in old or ()
            if item.get(key) not in here
        ]
        return errors or None

    return check


def gated(gate: str, cause: Cause) -> Check:
    """Refuse a changed value whose gate is off (the strategy dropped it first unless it was stored)."""

    def check(path: str, new: Any, _old: Any, write: Write) -> Errors:
        if gate in write.gates:
            return None
        return [] if new is None else [fields.forbidden(cause, path)]

    return check


def when_on(gate: str, inner: Check) -> Check:
    """Apply a check only while a gate is on."""

    def check(path: str, new: Any, old: Any, write: Write) -> Errors:
        return inner(path, new, old, write) if gate in write.gates else None

    return check


def union(cause: Cause, *members: str) -> Check:
    """Want exactly one member; on update only if membership changed."""
    listed = ", ".join(f"`{member}`" for member in members)

    def check(path: str, new: Any, old: Any, write: Write) -> Errors:
        given = [member for member in members if new.get(member) is not None]
        if (
            write.update
            and old is not None
            and given == [member for member in members if old.get(member) is not None]
        ):
            return None
        if not given:
            return [fields.invalid(cause, path, "", f"must specify one of: {listed}")]
        if len(given) > 1:
            shown = f"{{{', '.join(given)}}}"
            return [fields.invalid(cause, path, shown, f"must specify exactly one of: {listed}")]
        return None

    return check


def enumeration(cause: Cause, *values: str) -> Check:
    """Want one of the values; they are listed in byte order."""
    supported = sorted(values)

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        return None if new in supported else [fields.unsupported(cause, path, new, supported)]

    return check


def minimum(cause: Cause, limit: int) -> Check:
    """Want at least `limit`."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        if new >= limit:
            return None
        return [fields.invalid(cause, path, new, f"must be greater than or equal to {limit}")]

    return check


def maximum(cause: Cause, limit: int) -> Check:
    """Want at most `limit`."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        if new <= limit:
            return None
        return [fields.invalid(cause, path, new, f"must be less than or equal to {limit}")]

    return check


def max_items(cause: Cause, limit: int) -> Check:
    """Want no more than `limit` items."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        count = len(new or ())
        return [fields.too_many(cause, path, count, limit)] if count > limit else None

    return check


def unique(cause: Cause, key: str) -> Check:
    """Want every key of a list-map once; the complaint shows the whole later item."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        seen = set()
        errors = []
        for index, item in enumerate(new):
            if item.get(key) in seen:
                errors.append(fields.duplicate(cause, f"{path}[{index}]", item))
            seen.add(item.get(key))
        return errors

    return check


def spelled(cause: Cause, complain: Callable[[str], list[str]]) -> Check:
    """Want a text that a function of podium.rules.names has no complaint about."""

    def check(path: str, new: Any, _old: Any, _write: Write) -> Errors:
        return [fields.invalid(cause, path, new, complaint) for complaint in complain(new)]

    return check
