"""Examines the ports on which a daemon would listen: free, its own, or another program's."""

import errno
import socket
from collections.abc import Iterator
from typing import Final

import psutil

from broker_ctl.daemon.doctor.findings import Finding, Level
from broker_ctl.settings.conditions import OWN_BROKER
from broker_ctl.settings.http_ports import token_addresses
from broker_ctl.settings.root import Settings

_CHECK: Final = "ports"
_OURS: Final = ("broker-ctl", "broker_ctl")


def examine_ports(settings: Settings) -> list[Finding]:
    """Each port of HTTP and of binary lookups."""
    return [_examine(host, port) for host, port in dict.fromkeys(_addresses(settings))]


def _addresses(settings: Settings) -> Iterator[tuple[str, int]]:
    yield from token_addresses(settings)
    broker = settings.broker
    if OWN_BROKER.holds(settings):
        for port in (broker.lookup_service_port, broker.lookup_service_port_tls):
            if port is not None:
                yield broker.bind_address, port


def _examine(host: str, port: int) -> Finding:
    subject = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not port:
        return Finding(_CHECK, subject, Level.OK, "any free port")
    try:
        _bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _in_use(subject, port)
        advice = {
            errno.EACCES: "use a port from 1024 on, or give CAP_NET_BIND_SERVICE",
            errno.EADDRNOTAVAIL: "bindAddress has to be an address of this machine",
        }.get(error.errno or 0, "see bindAddress and the port")
        return Finding(_CHECK, subject, Level.ERROR, error.strerror or str(error), advice)
    return Finding(_CHECK, subject, Level.OK, "free")


def _bind(host: str, port: int) -> None:
    """Bind the port at each address of the host, and leave it.

    Raises:
        OSError: it is in use, or not to be had.
    """
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)


def _in_use(subject: str, port: int) -> Finding:
    owner = _owner_of(port)
    if owner is None:
        text = "in use; by which process, only root sees"
        return Finding(
            _CHECK, subject, Level.WARNING, text, "a daemon that runs already? else: ss -ltnp"
        )
    if any(name in owner for name in _OURS):
        return Finding(_CHECK, subject, Level.OK, f"in use by {owner}")
    advice = "stop that program, or choose another port"
    return Finding(_CHECK, subject, Level.ERROR, f"in use by {owner}", advice)


def _owner_of(port: int) -> str | None:
    """The process that listens there; None: not known."""
    try:
        found = psutil.net_connections(kind="tcp")
    except (psutil.AccessDenied, OSError):
        return None
    for each in found:
        if each.status == psutil.CONN_LISTEN and each.laddr[1:] == (port,) and each.pid:
            try:
                process = psutil.Process(each.pid)
                words = process.cmdline()
            except psutil.Error:
                return None
            ours = next((name for name in _OURS for word in words if name in word), "")
            return f"{ours or process.name()} (pid {each.pid})"
    return None
