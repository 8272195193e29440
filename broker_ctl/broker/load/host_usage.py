"""Resource usage of this machine, by Pulsar's formulas (docs: pulsar-report-rules).

A `HostSample` is one reading of the counters; `usage_between` computes the usage between two of
them. Units are those of Pulsar's reports: cpu in percent of one core, memory in MiB, bandwidth in
Kbit/s.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import psutil

from broker_ctl.clock import Clock
from broker_ctl.core.model.load import ResourceUsage, SystemUsage
from broker_ctl.dataplane.bundles.interface import DataPlane

_log = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
_NS_PER_S: Final = 1e9
_US_PER_S: Final = 1_000_000
_KBIT_PER_MBIT: Final = 1_000
_KBIT_PER_GBIT: Final = 1_000_000
# What to do about it.
NAME_NICS: Final = (
    "set loadBalancerOverrideBrokerNics to the names of the interfaces, and "
    "loadBalancerOverrideBrokerNicSpeedGbps to the speed of each"
)
_ETHERNET: Final = "1"
_UP: Final = frozenset({"up", "unknown", "dormant"})


@dataclass(frozen=True, slots=True)
class NicSample:
    """Byte counters of an interface, and its speed, 0 if unknown."""

    received_bytes: int
    sent_bytes: int
    speed_kbit_s: float


@dataclass(frozen=True, slots=True)
class HostSample:
    """The counters at ``at_s``.

    Attributes:
        cpu_busy_s: processor seconds used so far, over all cores.
        cpu_limit_percent: 100 for each usable core.
        memory_mib: resident set of this process.
        memory_limit_mib: limit of the control group, or else the machine's memory.
        nics: the interfaces to count.
    """

    at_s: float
    cpu_busy_s: float
    cpu_limit_percent: float
    memory_mib: float
    memory_limit_mib: float
    nics: Mapping[str, NicSample] = field(default_factory=dict)


def unmeasured_bandwidth(nics: Mapping[str, NicSample]) -> str:
    """Why the bandwidth of a broker counts in part or not at all; empty: it counts."""
    if not nics:
        return "no network interface is counted: none is a physical one that is up"
    silent = sorted(name for name, nic in nics.items() if not nic.speed_kbit_s)
    return f"the system reports no speed of {', '.join(silent)}" if silent else ""


def usage_between(before: HostSample, after: HostSample) -> SystemUsage:
    """Mean usage from one sample to the next.

    Only interfaces in both samples count. A counter that decreased (the interface restarted) counts
    as no usage, and so does an interval of zero length. Direct memory is a notion of the JVM: it is
    always 0.
    """
    elapsed_s = after.at_s - before.at_s
    both = [(before.nics[name], nic) for name, nic in after.nics.items() if name in before.nics]
    received = sum(max(0, new.received_bytes - old.received_bytes) for old, new in both)
    sent = sum(max(0, new.sent_bytes - old.sent_bytes) for old, new in both)
    speed_kbit_s = sum(nic.speed_kbit_s for nic in after.nics.values())
    busy_s = max(0.0, after.cpu_busy_s - before.cpu_busy_s)
    return SystemUsage(
        cpu=ResourceUsage(_rate(busy_s * 100, elapsed_s), after.cpu_limit_percent),
        memory=ResourceUsage(after.memory_mib, after.memory_limit_mib),
        direct_memory=ResourceUsage(0.0, after.memory_limit_mib),
        bandwidth_in=ResourceUsage(_rate(received * 8 / 1000, elapsed_s), speed_kbit_s),
        bandwidth_out=ResourceUsage(_rate(sent * 8 / 1000, elapsed_s), speed_kbit_s),
    )


def _rate(amount: float, elapsed_s: float) -> float:
    return amount / elapsed_s if elapsed_s > 0 else 0.0


def cgroup_cpu_limit_percent(cpu_max: str) -> float | None:
    """100 times quota over period of a ``cpu.max`` file; None without a quota."""
    quota, _, period = cpu_max.strip().partition(" ")
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period) * 100


def cgroup_cpu_busy_s(cpu_stat: str) -> float | None:
    """Processor seconds of a ``cpu.stat`` file."""
    for line in cpu_stat.splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdecimal():
            return int(value) / _US_PER_S
    return None


def cgroup_memory_limit_mib(memory_max: str) -> float | None:
    """The limit of a ``memory.max`` file; None without a limit."""
    text = memory_max.strip()
    return int(text) / _MIB if text.isdecimal() else None


def cgroup_v1_quota_percent(quota_us: str, period_us: str) -> float | None:
    """100 times quota over period of ``cpu.cfs_quota_us``, which is -1 without a quota."""
    return cgroup_cpu_limit_percent(f"{quota_us.strip()} {period_us.strip()}")


def host_cpu_busy_s(times: Mapping[str, float]) -> float:
    """Processor seconds of the whole machine, except idle and waiting for disks.

    The time of guests is part of user and nice, and must not be counted twice.
    """
    left_out = {"idle", "iowait", "guest", "guest_nice"}
    return sum(seconds for name, seconds in times.items() if name not in left_out)


def is_physical(device_path: str, kind: str, state: str) -> bool:
    """Return whether an interface of ``/sys/class/net`` is a physical one that is up."""
    return "/virtual/" not in device_path and kind == _ETHERNET and state in _UP


class HostSampler:
    """Reads the counters from a few small files in memory, which does not block for long.

    Args:
        clock: dates the samples.
        nics: interfaces to count; empty: all physical ones.
        nic_speed_gbps: Gbit/s of each, if the system reports a wrong speed (virtual machines do).
        root: where ``/proc`` and ``/sys`` are.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        nics: Collection[str] = (),
        nic_speed_gbps: float | None = None,
        root: Path = Path("/"),
    ) -> None:
        self._clock = clock
        self._nics = frozenset(nics)
        self._nic_speed_gbps = nic_speed_gbps
        self._root = root
        self._process = psutil.Process()

    def __call__(self) -> HostSample:
        """Read the counters."""
        busy_s, limit_percent = self._cpu()
        # Version 1 writes a number above any machine's memory where there is no limit.
        limit_mib = cgroup_memory_limit_mib(
            self._cgroup("memory.max") or self._cgroup_v1("memory", "memory.limit_in_bytes")
        )
        machine_mib = psutil.virtual_memory().total / _MIB
        return HostSample(
            at_s=self._clock.now_s(),
            cpu_busy_s=busy_s,
            cpu_limit_percent=limit_percent,
            memory_mib=self._process.memory_info().rss / _MIB,
            memory_limit_mib=min(limit_mib or machine_mib, machine_mib),
            nics=self._network(),
        )

    def _cpu(self) -> tuple[float, float]:
        """Usage and limit of the control group if it has a quota, or else of the machine.

        Usage and limit must be of the same scope: a broker limited to some cores of a busy machine
        would otherwise be above 100 % (Pulsar #17815).
        """
        quota_percent = cgroup_cpu_limit_percent(self._cgroup("cpu.max"))
        group_busy_s = cgroup_cpu_busy_s(self._cgroup("cpu.stat"))
        if quota_percent is None:
            quota_percent = cgroup_v1_quota_percent(
                self._cgroup_v1("cpu", "cpu.cfs_quota_us"),
                self._cgroup_v1("cpu", "cpu.cfs_period_us"),
            )
            used_ns = self._cgroup_v1("cpuacct", "cpuacct.usage")
            group_busy_s = int(used_ns) / _NS_PER_S if used_ns.isdecimal() else None
        if quota_percent is not None and group_busy_s is not None:
            return group_busy_s, quota_percent
        return host_cpu_busy_s(psutil.cpu_times()._asdict()), 100.0 * (psutil.cpu_count() or 1)

    def _network(self) -> Mapping[str, NicSample]:
        counters, states = psutil.net_io_counters(pernic=True), psutil.net_if_stats()
        found: dict[str, NicSample] = {}
        for name, counter in counters.items():
            if not self._is_counted(name):
                continue
            reported_mbit_s = states[name].speed if name in states else 0
            speed_kbit_s = (
                max(0, reported_mbit_s) * _KBIT_PER_MBIT
                if self._nic_speed_gbps is None
                else self._nic_speed_gbps * _KBIT_PER_GBIT
            )
            found[name] = NicSample(counter.bytes_recv, counter.bytes_sent, speed_kbit_s)
        return found

    def _is_counted(self, name: str) -> bool:
        if self._nics:
            return name in self._nics
        device = self._root / "sys/class/net" / name
        return is_physical(
            str(device.resolve()), _text(device / "type"), _text(device / "operstate")
        )

    def _cgroup(self, name: str) -> str:
        """A file of this process's control group, version 2; empty if there is none.

        A limit of a parent group is set by the operator of the whole container, inside which the
        parent appears as the root group.
        """
        mounted = self._root / "sys/fs/cgroup"
        for line in _text(self._root / "proc/self/cgroup").splitlines():
            hierarchy, _, group = line.partition("::")
            if hierarchy == "0":
                return _text(mounted / group.strip("/") / name) or _text(mounted / name)
        return ""

    def _cgroup_v1(self, controller: str, name: str) -> str:
        """The same of version 1, which has a tree for each controller or for several together."""
        mounted = self._root / "sys/fs/cgroup"
        for line in _text(self._root / "proc/self/cgroup").splitlines():
            _, controllers, group = [*line.split(":", 2), "", ""][:3]
            if controller not in controllers.split(","):
                continue
            for tree in (controllers, controller):
                place = mounted / tree
                if text := _text(place / group.strip("/") / name) or _text(place / name):
                    return text
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class HostUsage:
    """Usage since the previous measurement.

    Args:
        sample: reads the machine.
        first_window_s: length of the first measurement, which has no predecessor. Zeros would make
            a broker that starts on a busy machine look idle, and attract bundles.
    """

    def __init__(self, sample: Callable[[], HostSample], first_window_s: float = 0.5) -> None:
        self._sample = sample
        self._first_window_s = first_window_s
        self._last: HostSample | None = None

    async def measure(self) -> SystemUsage:
        """Mean usage since the last call."""
        before = self._last
        if before is None:
            before = self._sample()
            if why := unmeasured_bandwidth(before.nics):
                _log.warning("bandwidth has no limit in the load report: %s; %s", why, NAME_NICS)
            await asyncio.sleep(self._first_window_s)
        self._last = self._sample()
        return usage_between(before, self._last)


class UsageSource(Protocol):
    """Measures the resource usage of a broker: `HostUsage`, or `DataPlaneUsage`."""

    async def measure(self) -> SystemUsage:
        """Usage since the last call.

        Raises:
            DataPlaneError: the data plane did not answer.
        """
        ...


class DataPlaneUsage:
    """Usage as the data plane reports it, or else as the host does."""

    def __init__(self, dataplane: DataPlane, host: UsageSource) -> None:
        self._dataplane = dataplane
        self._host = host

    async def measure(self) -> SystemUsage:
        """See `UsageSource`."""
        usage = await self._dataplane.usage()
        return await self._host.measure() if usage is None else usage
