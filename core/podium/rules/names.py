"""The syntax of names, label keys and label values, with the API server's exact messages.

Every function returns the errors in one text, none if it is valid. Lengths are bytes of UTF-8, as in Go; the
older validators, for the names of objects, call them characters (`unit`).
"""

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_key = re.compile(_KEY).fullmatch
_value = re.compile(_VALUE).fullmatch
_reason = re.compile(_REASON).fullmatch

LABEL_LIMIT = 63
SUBDOMAIN_LIMIT = 253

_ENDS = "must start and end with an alphanumeric character"
_ALPHANUMERIC = f"consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"


def regex_complaint(message: str, pattern: str, *examples: str) -> str:
    """Return the pattern that a text must match, with examples, in apimachinery's wording.

    The wording has two blanks before `or`.
    """
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{pattern}')"


_LABEL_COMPLAINT = regex_complaint(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_COMPLAINT = regex_complaint(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_KEY_COMPLAINT = regex_complaint(f"must {_ALPHANUMERIC}", _KEY, "MyName", "my.name", "123-abc")
_SLASHES_COMPLAINT = (
    f"a valid label key {_KEY_COMPLAINT} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_VALUE_COMPLAINT = regex_complaint(
    f"a valid label must be an empty string or {_ALPHANUMERIC}", _VALUE, "MyValue", "my_value", "12345"
)
_REASON_COMPLAINT = regex_complaint(
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def dns_label(text: str, unit: str = "bytes") -> list[str]:
    """Return errors unless the text is an RFC 1123 label: a namespace, a template."""
    complaints = _longer(text, LABEL_LIMIT, unit)
    if not _label(text):
        complaints.append("must not contain dots" if _subdomain(text) else _LABEL_COMPLAINT)
    return complaints


def dns_subdomain(text: str, unit: str = "bytes") -> list[str]:
    """Return errors unless the text is an RFC 1123 subdomain: the name of nearly every object."""
    complaints = _longer(text, SUBDOMAIN_LIMIT, unit)
    if not _subdomain(text):
        complaints.append(_SUBDOMAIN_COMPLAINT)
    return complaints


def object_name(text: str) -> list[str]:
    """Return errors unless the text can name an object whose kind requires a DNS subdomain."""
    return dns_subdomain(text, "characters")


def object_name_prefix(text: str) -> list[str]:
    """Return errors unless the text with a suffix is an object's name: generateName may end in a dash."""
    masked = text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text
    return dns_subdomain(masked, "characters")


def qualified_name(text: str) -> list[str]:
    """Return errors unless the text is a label key: a name with an optional DNS prefix and a slash."""
    prefix, slash, name = text.partition("/")
    if not slash:
        prefix, name = "", text
    if "/" in name:
        return [_SLASHES_COMPLAINT]
    complaints = []
    if slash:
        problems = dns_subdomain(prefix) if prefix else ["must be non-empty"]
        complaints += [f"prefix part {complaint}" for complaint in problems]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name.encode(errors="surrogatepass")) > LABEL_LIMIT:
        complaints.append(f"name part must be no more than {LABEL_LIMIT} bytes")
    if not _key(name):
        complaints.append(f"name part {_KEY_COMPLAINT}")
    return complaints


def label_value(text: str) -> list[str]:
    """Return errors unless the text can be the value of a label."""
    complaints = _longer(text, LABEL_LIMIT, "bytes")
    if not _value(text):
        complaints.append(_VALUE_COMPLAINT)
    return complaints


def path_segment(text: str) -> list[str]:
    """Return errors unless the text can be one segment of a URL's path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return path_segment_prefix(text)


def path_segment_prefix(text: str) -> list[str]:
    """Return errors unless the text with a suffix is a path segment."""
    return [f"may not contain '{separator}'" for separator in "/%" if separator in text]


def condition_reason(text: str) -> list[str]:
    """Return errors unless the text can be the reason of a condition; another rule checks its length."""
    return [] if _reason(text) else [_REASON_COMPLAINT]


def _longer(text: str, limit: int, unit: str) -> list[str]:
    if len(text) <= limit and text.isascii():
        return []
    long = len(text.encode(errors="surrogatepass")) > limit
    return [f"must be no more than {limit} {unit}"] if long else []
