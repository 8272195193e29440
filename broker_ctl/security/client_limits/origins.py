"""The origin of a connection: the address that limits are counted by."""

import asyncio
from ipaddress import IPv6Address, ip_address
from typing import Final

_UNKNOWN: Final = "an unknown address"
# A host of IPv6 has a whole network of this many bits to choose its addresses from.
_NETWORK_BITS: Final = 64


def origin_of(transport: asyncio.BaseTransport) -> str:
    """Return the client's IPv4 address, or the network of its IPv6 address."""
    return origin_of_address(transport.get_extra_info("peername"))


def origin_of_address(name: object) -> str:
    """As `origin_of`, by the address of a socket."""
    if not isinstance(name, tuple):
        return _UNKNOWN
    try:
        address = ip_address(str(name[0]).partition("%")[0])
    except ValueError:
        return _UNKNOWN
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = int(address) >> _NETWORK_BITS << _NETWORK_BITS
    return f"{IPv6Address(network)}/{_NETWORK_BITS}"
