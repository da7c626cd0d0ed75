"""Addresses, networks and URLs as values of CEL.

Source: k8s.io/apiserver/pkg/cel/library/ip.go, cidr.go and urls.go; Go net/netip and net/url.
"""

import ipaddress
from dataclasses import dataclass

from kubecel.errors import SelectorRuntimeError
from kubecel.goquote import go_quote
from kubecel.urls import UrlError, UrlParts, parse_url
from kubecel.values import Map, Opaque, SizedOpaque

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class IPValue(SizedOpaque):
    """An address."""

    address: Address
    type_name = "net.IP"

    def __str__(self) -> str:
        return str(self.address)

    def __len__(self) -> int:
        return 4 if self.address.version == 4 else 16

    def same(self, other: object) -> bool:
        """Return whether two addresses are equal."""
        return isinstance(other, IPValue) and self.address == other.address


@dataclass(frozen=True, slots=True)
class CIDRValue(SizedOpaque):
    """An address with the length of its network's prefix."""

    address: Address
    bits: int
    type_name = "net.CIDR"

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def __len__(self) -> int:
        return (self.bits + 7) // 8

    def same(self, other: object) -> bool:
        """Return whether address and prefix are equal."""
        return isinstance(other, CIDRValue) and (self.address, self.bits) == (other.address, other.bits)

    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """Return the network."""
        return ipaddress.ip_network((self.address, self.bits), strict=False)


@dataclass(frozen=True, slots=True)
class URLValue(Opaque):
    """A URL."""

    parts: UrlParts
    type_name = "kubernetes.URL"

    def __str__(self) -> str:
        return self.parts.full_text()

    def same(self, other: object) -> bool:
        """Return whether two URLs have one text."""
        return isinstance(other, URLValue) and self.parts.full_text() == other.parts.full_text()


def parse_ip(text: str) -> Address:
    """Return an address. Raises SelectorRuntimeError with the text of Kubernetes."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        raise SelectorRuntimeError(
            f"IP Address {go_quote(text)} parse error during conversion from string: {address_error(text)}"
        ) from None
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.scope_id is not None:
            raise SelectorRuntimeError(f"IP address {go_quote(text)} with zone value is not allowed")
        if parsed.ipv4_mapped is not None:
            raise SelectorRuntimeError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return parsed


def parse_cidr(text: str) -> CIDRValue:
    """Return a network. Raises SelectorRuntimeError with the text of Kubernetes."""
    prefix = "network address parse error during conversion from string: "
    shown = f"{prefix}netip.ParsePrefix({go_quote(text)}): "
    address_text, slash, bits_text = text.rpartition("/")
    if not slash:
        raise SelectorRuntimeError(shown + "no '/'")
    try:
        address = ipaddress.ip_address(address_text)
    except ValueError:
        raise SelectorRuntimeError(f"{shown}{address_error(address_text)}") from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise SelectorRuntimeError(shown + "IPv6 zones cannot be present in a prefix")
    digits = bits_text.isascii() and bits_text.isdigit() and len(bits_text) < 5
    if not digits or (len(bits_text) > 1 and bits_text[0] == "0"):
        raise SelectorRuntimeError(f"{shown}bad bits after slash: {go_quote(bits_text)}")
    if int(bits_text) > address.max_prefixlen:
        raise SelectorRuntimeError(shown + "prefix length out of range")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise SelectorRuntimeError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return CIDRValue(address, int(bits_text))


def ip(text: str) -> IPValue:
    """Return the address of a text."""
    return IPValue(parse_ip(text))


def is_canonical(text: str) -> bool:
    """Return whether a text is the canonical text of its address."""
    return str(parse_ip(text)) == text


def is_link_local_multicast(value: IPValue) -> bool:
    """Return whether an address is a multicast address of the link."""
    if isinstance(value.address, ipaddress.IPv4Address):
        return value.address in ipaddress.ip_network("224.0.0.0/24")
    packed = value.address.packed
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def is_global_unicast(value: IPValue) -> bool:
    """Return whether an address is a unicast address of no single link or host."""
    address = value.address
    if isinstance(address, ipaddress.IPv4Address) and int(address) in {0, 2**32 - 1}:
        return False
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def cidr(text: str) -> CIDRValue:
    """Return the network of a text."""
    try:
        return parse_cidr(text)
    except SelectorRuntimeError as error:
        raise SelectorRuntimeError(
            f"network address parse error during conversion from string: {error}"
        ) from None


def contains_ip(network: CIDRValue, address: IPValue | str) -> bool:
    """Return whether a network has an address."""
    try:
        parsed = parse_ip(address) if isinstance(address, str) else address.address
    except SelectorRuntimeError:
        raise SelectorRuntimeError("no such overload") from None
    return parsed.version == network.address.version and parsed in network.network()


def contains_cidr(network: CIDRValue, inner: CIDRValue | str) -> bool:
    """Return whether a network has another network."""
    subnet = cidr(inner) if isinstance(inner, str) else inner
    if subnet.address.version != network.address.version or network.bits > subnet.bits:
        return False
    return network.network().overlaps(subnet.network())


def masked(value: CIDRValue) -> CIDRValue:
    """Return a network with the bits after the prefix set to zero."""
    return CIDRValue(value.network().network_address, value.bits)


def url(text: str) -> URLValue:
    """Return the URL of a text."""
    try:
        return URLValue(parse_url(text))
    except UrlError as error:
        raise SelectorRuntimeError(f"URL parse error during conversion from string: {error}") from None


def url_query(value: URLValue) -> Map:
    """Return the parameters of a URL's query."""
    return Map({key: (key, list[object](values)) for key, values in value.parts.query_values().items()})


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
