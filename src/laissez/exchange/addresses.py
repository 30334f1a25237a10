"""Where handovers may be posted: addresses of the web, and, unless the operator says so, none
that lead into the operator's own networks.

A service that posts wherever it is told reaches what only its own machine can reach: a database
on loopback, the cloud's metadata with its credentials. So an address is looked at twice. When a
webhook is added, what can never work or names a private address outright is refused with a
sentence. And each time that a connection is made, the numbers that the name stands for at that
moment are judged, because whoever owns a name can let it stand for something else tomorrow.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

URL_MAX = 2_048
HOST_MAX = 253
PORT_MAX = 65_535
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")

# Python calls these public, or did in some versions. The last is where Azure answers its machines.
_NOT_FOR_US = (ip_network("192.0.0.0/24"), ip_network("168.63.129.16/32"))
_PUBLIC_IPV6 = ip_network("2000::/3")
# IPv4 in IPv6: the first is translated by the network, the second by anybody.
_TRANSLATED = ip_network("64:ff9b::/96")
_TUNNELLED = ip_network("2002::/16")


def why_not_an_address(url: str, *, allow_private: bool) -> str | None:
    """What is wrong with an address as a webhook's, as a sentence; None if nothing is."""
    begins = "give an address that begins with https:// or http://"
    if len(url) > URL_MAX:
        return f"an address has at most {URL_MAX} characters"
    if not _PRINTABLE.fullmatch(url):
        return f"{begins} and has no spaces, accents or signs that are not printed; encode them"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return begins
    if parts.scheme not in ("http", "https") or not host:
        return begins
    if "@" in parts.netloc:
        return "leave the name and password out of the address: receivers check the signature"
    if not _is_port(parts.netloc):
        return f"give a port from 1 to {PORT_MAX}, or leave it out"
    number = as_number(host)
    if number is None:
        return None if _is_name(host) else f"{host[:80]!r} is not the name of a host"
    return None if allow_private or is_public(number) else why_not_there(host)


def why_not_there(where: str) -> str:
    """The sentence about a private address."""
    return (
        f"{where} is a private address, where webhooks are posted only if the operator starts "
        "the service with --allow-private-webhooks"
    )


def as_number(host: str) -> IPv4Address | IPv6Address | None:
    """The host as an IP address, None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_public(number: IPv4Address | IPv6Address) -> bool:
    """Is this somebody else's machine, reached through the internet?"""
    if isinstance(number, IPv4Address):
        return (
            number.is_global
            and not number.is_multicast
            and not any(number in network for network in _NOT_FOR_US)
        )
    if number.scope_id is not None:
        return False
    if number.ipv4_mapped is not None:
        return is_public(number.ipv4_mapped)
    if _is_in(number, _TRANSLATED):
        return is_public(IPv4Address(int(number) & 0xFFFF_FFFF))
    return number.is_global and _is_in(number, _PUBLIC_IPV6) and not _is_in(number, _TUNNELLED)


def _is_in(number: IPv6Address, network: object) -> bool:
    assert isinstance(network, IPv6Network)
    return number in network


def _is_port(netloc: str) -> bool:
    """Does a host stand there, with no port or with one that there is?"""
    found = _HOST_AND_PORT.fullmatch(netloc)
    return found is not None and (found[1] is None or 1 <= int(found[1]) <= PORT_MAX)


def _is_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return len(host) <= HOST_MAX and all(_LABEL.fullmatch(label) for label in labels)
