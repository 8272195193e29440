"""Examines the machine: clock, limits of the process, memory, disks, ports."""

import ctypes
import errno
import os
import resource
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import psutil

from broker_ctl.broker.load.host_usage import (
    NAME_NICS,
    HostSample,
    HostSampler,
    unmeasured_bandwidth,
)
from broker_ctl.clock import SystemClock
from broker_ctl.settings.conditions import OWN_BROKER
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.publishing import token_addresses
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.load_report import HostUsageSource

# What an examination has found, as values.


class FindingLevel(StrEnum):
    """How much it matters, the least first."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was examined, such as ``zookeeper``.
        subject: which of them, such as a server or a port.
        found: what was seen, in words.
        advice: what to do; empty where nothing is.
    """

    check: str
    subject: str
    level: FindingLevel
    found: str
    advice: str = ""

    def to_row(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return {
            "check": self.check,
            "subject": self.subject,
            "state": self.level.value,
            "found": self.found,
            "advice": self.advice,
        }


def worst(findings: Iterable[Finding]) -> FindingLevel:
    """The level that decides: an error, a warning, or ok."""
    levels = {finding.level for finding in findings}
    return next(
        (level for level in (FindingLevel.ERROR, FindingLevel.WARNING) if level in levels),
        FindingLevel.OK,
    )


# Examines the ports on which a daemon would listen: free, its own, or another program's.


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
        return Finding(_CHECK, subject, FindingLevel.OK, "any free port")
    try:
        _bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _in_use(subject, port)
        advice = {
            errno.EACCES: "use a port from 1024 on, or give CAP_NET_BIND_SERVICE",
            errno.EADDRNOTAVAIL: "bindAddress has to be an address of this machine",
        }.get(error.errno or 0, "see bindAddress and the port")
        return Finding(_CHECK, subject, FindingLevel.ERROR, error.strerror or str(error), advice)
    return Finding(_CHECK, subject, FindingLevel.OK, "free")


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
            _CHECK,
            subject,
            FindingLevel.WARNING,
            text,
            "a daemon that runs already? else: ss -ltnp",
        )
    if any(name in owner for name in _OURS):
        return Finding(_CHECK, subject, FindingLevel.OK, f"in use by {owner}")
    advice = "stop that program, or choose another port"
    return Finding(_CHECK, subject, FindingLevel.ERROR, f"in use by {owner}", advice)


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


# Examines the machine: clock, limits of the process, memory, disks.


_MIB: Final = 1024 * 1024
_KBIT_PER_GBIT: Final = 1_000_000
# Of the kernel, in <linux/timex.h>: the clock is not synchronized.
_TIME_ERROR: Final = 5
# More than struct timex has on any architecture.
_TIMEX_BYTES: Final = 512
# Connections of brokers, clients and scrapers, each a file; half of the limit is for HTTP.
_FEW_FILES: Final = 4096
_LITTLE_MEMORY_MIB: Final = 256
_LITTLE_DISK_MIB: Final = 512
_DIRECTORIES: Final = ("loadHistoryDirectory", "sessionDirectory")


def examine_machine(settings: Settings, root: Path = Path("/")) -> list[Finding]:
    """Clock, open files, memory, network, and the disks of the directories of a daemon.

    Args:
        settings: of the daemon that is to run here.
        root: where ``/proc`` and ``/sys`` are.
    """
    report = settings.load_report
    sample = HostSampler(
        SystemClock(), nics=report.nics, nic_speed_gbps=report.nic_speed_gbps, root=root
    )()
    memory, network = _memory(sample), _network(settings, sample)
    return [_clock(), _open_files(settings), memory, network, *_disks(settings)]


def _clock() -> Finding:
    state = _adjtimex()
    if state < 0:
        text = os.strerror(ctypes.get_errno())
        return Finding("clock", "", FindingLevel.SKIPPED, f"the kernel does not say: {text}")
    if state == _TIME_ERROR:
        return Finding(
            "clock",
            "",
            FindingLevel.WARNING,
            "the kernel says that the clock is not synchronized",
            "run an NTP client (systemd-timesyncd, chrony): certificates, tokens and the order of "
            "the history depend on the time; leases do not",
        )
    return Finding("clock", "", FindingLevel.OK, "synchronized, says the kernel")


def _adjtimex() -> int:
    """The state of the kernel's clock; -1: see errno."""
    # Zeroes: it only reads.
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return int(state)


def _open_files(settings: Settings) -> Finding:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.api.max_connections
    subject = "open files"
    if limit < 2 * min(wanted, _FEW_FILES):
        return Finding(
            "limits",
            subject,
            FindingLevel.WARNING,
            f"{limit} in this shell (at most {most}); half of it is for HTTP, whose limit is "
            f"maxHttpServerConnections={wanted}",
            "LimitNOFILE= in the unit, which broker-ctl units install sets, or ulimit -n",
        )
    return Finding("limits", subject, FindingLevel.OK, f"{limit} in this shell")


def _memory(sample: HostSample) -> Finding:
    machine, available = (
        size / _MIB for size in (psutil.virtual_memory().total, psutil.virtual_memory().available)
    )
    limited = sample.memory_limit_mib if sample.memory_limit_mib < machine else None
    room = available if limited is None else min(available, limited)
    within = "" if limited is None else f"; the control group allows {limited:,.0f} MiB"
    text = f"{available:,.0f} MiB available{within}"
    if room < _LITTLE_MEMORY_MIB:
        advice = f"a daemon needs about {_LITTLE_MEMORY_MIB} MiB"
        return Finding("limits", "memory", FindingLevel.WARNING, text, advice)
    return Finding("limits", "memory", FindingLevel.OK, text)


def _network(settings: Settings, sample: HostSample) -> Finding:
    """What the bandwidth of a load report is measured of."""
    counted = ", ".join(
        f"{name} {nic.speed_kbit_s / _KBIT_PER_GBIT:g} Gbit/s"
        for name, nic in sorted(sample.nics.items())
    )
    why = unmeasured_bandwidth(sample.nics)
    if why and settings.load_report.host_usage_source is HostUsageSource.HOST:
        text = f"bandwidth has no limit in the load report: {why}"
        return Finding("limits", "network", FindingLevel.WARNING, text, NAME_NICS)
    return Finding("limits", "network", FindingLevel.OK, why or counted)


def _disks(settings: Settings) -> Iterator[Finding]:
    for key in _DIRECTORIES:
        directory = settings.value(key)
        if not isinstance(directory, Path) or not is_used(settings, key):
            continue
        there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
        disk = psutil.disk_usage(str(there))
        free = disk.free / _MIB
        subject = f"{key}={directory}"
        text = f"{free:,.0f} MiB free ({100 - disk.percent:.0f} %)"
        if free < _LITTLE_DISK_MIB:
            advice = "free space; a daemon on a full disk serves, and keeps no history"
            yield Finding("disk", subject, FindingLevel.WARNING, text, advice)
        else:
            yield Finding("disk", subject, FindingLevel.OK, text)
