"""Which IP addresses are public unicast: our own table, because the standard library's differs by version."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Network = IPv4Network | IPv6Network

_CLOSED_V4: Final = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and cloud metadata at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host agent, on a public address
        "169.254.0.0/16",  # link-local, and most cloud metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, and cloud metadata at .192
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # former 6to4 relay
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Of IPv6 only global unicast (2000::/3) is open, less these blocks of it.
_OPEN_V6: Final = IPv6Network("2000::/3")
_CLOSED_V6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

# Closed even inside a range that was opened on purpose: the machine itself, what answers any neighbour with
# credentials, what is no single host, and IPv6 forms that carry an IPv4 address past the rules for IPv4.
_NEVER: Final = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "100.100.100.200/32",  # cloud metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host agent
        "169.254.0.0/16",  # link-local, and most cloud metadata
        "192.0.0.192/32",  # cloud metadata
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "::/8",  # loopback, unspecified, IPv4-mapped, IPv4-compatible, NAT64
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "fd00:42::42/128",  # cloud metadata
        "fd00:ec2::/32",  # cloud metadata
        "fd20:ce::254/128",  # cloud metadata
        "fe80::/10",  # link-local
        "ff00::/8",  # multicast
    )
)


def is_public(address: str, allowed: Sequence[Network] = ()) -> bool:
    """Whether a fetch may connect to this address. `allowed` opens intranet ranges, less what is never open."""
    try:
        # As text, whatever a resolver gave: a bare number or four bytes would be read as an address too.
        ip = ip_address(str(address))
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and (ip.scope_id is not None or _is_isatap(ip)):
        return False
    if any(ip in network for network in allowed):
        return not any(ip in block for block in _NEVER)
    return _is_open_v4(ip) if isinstance(ip, IPv4Address) else _is_open_v6(ip)


def parse_network(text: str) -> Network:
    return ip_network(text, strict=False)


def is_never_open(network: Network) -> bool:
    """Whether opening this range would open nothing at all."""
    return any(network[0] in block and network[-1] in block for block in _NEVER)


def _is_open_v4(ip: IPv4Address) -> bool:
    return not any(ip in block for block in _CLOSED_V4)


def _is_open_v6(ip: IPv6Address) -> bool:
    return ip in _OPEN_V6 and not any(ip in block for block in _CLOSED_V6)


def _is_isatap(ip: IPv6Address) -> bool:
    """An interface id of 0:5efe (or 200:5efe) carries an IPv4 address that a tunnel would deliver to."""
    return (int(ip) >> 32) & 0xFFFFFFFF in {0x00005EFE, 0x02005EFE}
