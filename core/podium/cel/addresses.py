"""Addresses, networks and URLs as values of CEL.

Source: k8s.io/apiserver/pkg/cel/library/ip.go, cidr.go and urls.go; Go net/netip and net/url.
"""

import ipaddress
from dataclasses import dataclass

from podium.cel.addresserrors import address_error
from podium.cel.nodes import SelectorRuntimeError
from podium.cel.urls import UrlError, UrlParts, parse_url
from podium.cel.values import Map, Opaque, SizedOpaque
from podium.text import go_quote

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
        found = ipaddress.ip_address(text)
    except ValueError:
        raise SelectorRuntimeError(
            f"IP Address {go_quote(text)} parse error during conversion from string: {address_error(text)}"
        ) from None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            raise SelectorRuntimeError(f"IP address {go_quote(text)} with zone value is not allowed")
        if found.ipv4_mapped is not None:
            raise SelectorRuntimeError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return found


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


def contains_ip(network: CIDRValue, other: IPValue | str) -> bool:
    """Return whether a network has an address."""
    try:
        found = parse_ip(other) if isinstance(other, str) else other.address
    except SelectorRuntimeError:
        raise SelectorRuntimeError("no such overload") from None
    return found.version == network.address.version and found in network.network()


def contains_cidr(network: CIDRValue, other: CIDRValue | str) -> bool:
    """Return whether a network has another network."""
    found = cidr(other) if isinstance(other, str) else other
    if found.address.version != network.address.version or network.bits > found.bits:
        return False
    return network.network().overlaps(found.network())


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
    return Map({key: (key, list[object](found)) for key, found in value.parts.query_values().items()})
