"""Why a text is no address, in the words of Go's netip.

Source: Go net/netip (ParseAddr).
"""

from podium.text import go_quote

_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


def address_error(text: str) -> str:
    """Return the error of ParseAddr for a text that it refuses."""
    mark = next((character for character in text if character in ".:%"), "")
    reason = {"": ("unable to parse IP", ""), "%": ("missing IPv6 address", "")}.get(mark)
    if reason is None:
        reason = _four(text) if mark == "." else _six(text)
    message, rest = reason
    return f"ParseAddr({go_quote(text)}): {message}" + (f" (at {go_quote(rest)})" if rest else "")


def _four(text: str) -> tuple[str, str]:
    """Return why a text is no IPv4 address, and the rest of the text at that place."""
    value = digits = fields = 0
    for place, character in enumerate(text):
        if character.isascii() and character.isdigit():
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero", ""
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                return "IPv4 field has value >255", ""
        elif character == ".":
            if place in {0, len(text) - 1} or text[place - 1] == ".":
                return "IPv4 field must have at least one digit", text[place:]
            if fields == 3:
                return "IPv4 address too long", ""
            value, digits, fields = 0, 0, fields + 1
        else:
            return "unexpected character", text[place:]
    return "IPv4 address too short", ""


def _six(text: str) -> tuple[str, str]:
    """Return why a text is no IPv6 address, and the rest of the text at that place."""
    rest, mark, zone = text.partition("%")
    if mark and not zone:
        return "zone must be a non-empty string", ""
    ellipsis = rest.startswith("::")
    rest = rest[2:] if ellipsis else rest
    filled = 0
    while filled < 16:
        width = 0
        while width < len(rest) and rest[width] in _HEXADECIMAL:
            if width > 3:
                return "each group must have 4 or less digits", rest
            width += 1
        if width == 0:
            return "each colon-separated field must have at least one digit", rest
        if rest[width : width + 1] == ".":
            return _embedded(rest, filled, ellipsis=ellipsis)
        filled += 2
        rest = rest[width:]
        if not rest:
            break
        if rest[0] != ":":
            return "unexpected character, want colon", rest
        if len(rest) == 1:
            return "colon must be followed by more characters", rest
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis:
                return "multiple :: in address", rest
            ellipsis, rest = True, rest[1:]
            if not rest:
                break
    if rest:
        return "trailing garbage after address", rest
    if filled < 16:
        return "address string too short", ""
    return "the :: must expand to at least one field of zeros", ""


def _embedded(rest: str, filled: int, *, ellipsis: bool) -> tuple[str, str]:
    if not ellipsis and filled != 12:
        return "embedded IPv4 address must replace the final 2 fields of the address", rest
    if filled > 12:
        return "too many hex fields to fit an embedded IPv4 at the end of the address", rest
    return _four(rest)
