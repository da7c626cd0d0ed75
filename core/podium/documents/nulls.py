"""Null entries of maps, read as the API server reads them: an empty text, or the quantity 0.

Authors leave them behind (`nvidia.com/gpu:` without a number), and templates write them for values that are
not set. Go's decoder gives such an entry the zero value of its map. The Structs read a null field as absent.
"""

from typing import Any

# The maps of text and of quantities in the kinds that are read, by the name of their field.
_ZEROS: dict[str, str] = {
    **dict.fromkeys(("labels", "annotations", "matchLabels", "nodeSelector"), ""),
    **dict.fromkeys(("requests", "limits", "overhead", "capacity", "allocatable"), "0"),
}


def without_null_entries(value: Any) -> Any:
    """Return a value with zeros for the null entries of its maps; the same value if it has none."""
    if isinstance(value, list):
        items = [without_null_entries(each) for each in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    fields = {key: _entries(key, without_null_entries(each)) for key, each in value.items()}
    return fields if any(fields[key] is not each for key, each in value.items()) else value


def _entries(field: Any, value: Any) -> Any:
    """Return the value of a field, in which no entry is null if the field is a map."""
    zero = _ZEROS.get(field) if isinstance(field, str) else None
    if zero is None or not isinstance(value, dict) or None not in value.values():
        return value
    return {key: zero if each is None else each for key, each in value.items()}
