"""Examines the machine: clock, limits of the process, memory, disks."""

import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from broker_ctl.broker.load.host_usage import (
    NAME_NICS,
    HostSample,
    HostSampler,
    unmeasured_bandwidth,
)
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.doctor.findings import Finding, Level
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.load_report import HostUsageSource

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
        return Finding("clock", "", Level.SKIPPED, f"the kernel does not say: {text}")
    if state == _TIME_ERROR:
        return Finding(
            "clock",
            "",
            Level.WARNING,
            "the kernel says that the clock is not synchronized",
            "run an NTP client (systemd-timesyncd, chrony): certificates, tokens and the order of "
            "the history depend on the time; leases do not",
        )
    return Finding("clock", "", Level.OK, "synchronized, says the kernel")


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
            Level.WARNING,
            f"{limit} in this shell (at most {most}); half of it is for HTTP, whose limit is "
            f"maxHttpServerConnections={wanted}",
            "LimitNOFILE= in the unit, which broker-ctl units install sets, or ulimit -n",
        )
    return Finding("limits", subject, Level.OK, f"{limit} in this shell")


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
        return Finding("limits", "memory", Level.WARNING, text, advice)
    return Finding("limits", "memory", Level.OK, text)


def _network(settings: Settings, sample: HostSample) -> Finding:
    """What the bandwidth of a load report is measured of."""
    counted = ", ".join(
        f"{name} {nic.speed_kbit_s / _KBIT_PER_GBIT:g} Gbit/s"
        for name, nic in sorted(sample.nics.items())
    )
    why = unmeasured_bandwidth(sample.nics)
    if why and settings.load_report.host_usage_source is HostUsageSource.HOST:
        text = f"bandwidth has no limit in the load report: {why}"
        return Finding("limits", "network", Level.WARNING, text, NAME_NICS)
    return Finding("limits", "network", Level.OK, why or counted)


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
            yield Finding("disk", subject, Level.WARNING, text, advice)
        else:
            yield Finding("disk", subject, Level.OK, text)
