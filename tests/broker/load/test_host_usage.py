from dataclasses import replace
from pathlib import Path

import pytest

from broker_ctl.broker.load.host_usage import (
    HostSample,
    HostSampler,
    HostUsage,
    NicSample,
    cgroup_cpu_busy_s,
    cgroup_cpu_limit_percent,
    cgroup_memory_limit_mib,
    host_cpu_busy_s,
    is_physical,
    usage_between,
)
from broker_ctl.clock import SystemClock
from broker_ctl.core.model.load import ResourceUsage, SystemUsage

GBIT = 1_000_000.0
BEFORE = HostSample(
    at_s=100.0,
    cpu_busy_s=50.0,
    cpu_limit_percent=400.0,
    memory_mib=200.0,
    memory_limit_mib=1024.0,
    nics={"eth0": NicSample(1_000_000, 2_000_000, GBIT), "eth1": NicSample(0, 0, GBIT)},
)
AFTER = replace(
    BEFORE,
    at_s=110.0,
    cpu_busy_s=65.0,
    memory_mib=256.0,
    nics={"eth0": NicSample(2_250_000, 2_500_000, GBIT), "eth1": NicSample(125_000, 0, GBIT)},
)


def test_usage_of_ten_recorded_seconds_in_the_units_of_pulsar() -> None:
    assert usage_between(BEFORE, AFTER) == SystemUsage(
        cpu=ResourceUsage(150.0, 400.0),
        memory=ResourceUsage(256.0, 1024.0),
        direct_memory=ResourceUsage(0.0, 1024.0),
        bandwidth_in=ResourceUsage(1_100.0, 2 * GBIT),
        bandwidth_out=ResourceUsage(400.0, 2 * GBIT),
    )


def test_a_counter_that_went_back_counts_as_nothing_used() -> None:
    restarted = replace(AFTER, nics={"eth0": NicSample(10, 2_500_000, GBIT)}, cpu_busy_s=1.0)
    usage = usage_between(BEFORE, restarted)
    assert (usage.cpu.usage, usage.bandwidth_in.usage) == (0.0, 0.0)
    assert usage.bandwidth_out == ResourceUsage(400.0, GBIT)


def test_an_interface_that_just_came_counts_its_speed_and_no_bytes() -> None:
    one = replace(BEFORE, nics={"eth0": BEFORE.nics["eth0"]})
    usage = usage_between(one, AFTER)
    assert usage.bandwidth_in == ResourceUsage(1_000.0, 2 * GBIT)


def test_rates_are_zero_where_no_time_has_passed() -> None:
    usage = usage_between(AFTER, AFTER)
    assert (usage.cpu.usage, usage.bandwidth_in.usage) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("150000 100000\n", 150.0),
        ("50000 100000", 50.0),
        ("max 100000", None),
        ("", None),
        ("100000 0", None),
        ("torn", None),
    ],
)
def test_the_quota_of_a_control_group(text: str, expected: float | None) -> None:
    assert cgroup_cpu_limit_percent(text) == expected


def test_the_processor_time_of_a_control_group() -> None:
    assert cgroup_cpu_busy_s("usage_usec 2500000\nuser_usec 2000000\n") == 2.5
    assert cgroup_cpu_busy_s("") is None


def test_the_memory_limit_of_a_control_group() -> None:
    assert cgroup_memory_limit_mib(str(512 * 1024 * 1024)) == 512.0
    assert cgroup_memory_limit_mib("max\n") is None


def test_a_machine_is_busy_while_it_is_not_idle_and_not_waiting() -> None:
    times = {"user": 10.0, "nice": 1.0, "system": 4.0, "idle": 100.0, "iowait": 7.0}
    more = {"irq": 0.5, "softirq": 0.5, "steal": 2.0, "guest": 3.0, "guest_nice": 0.5}
    assert host_cpu_busy_s(times | more) == 18.0


@pytest.mark.parametrize(
    ("device", "kind", "state", "counts"),
    [
        ("/sys/devices/pci0000:00/0000:00:03.0/net/eth0", "1", "up", True),
        ("/sys/devices/pci0000:00/0000:00:03.0/net/eth0", "1", "unknown", True),
        ("/sys/devices/pci0000:00/0000:00:03.0/net/eth0", "1", "down", False),
        ("/sys/devices/virtual/net/lo", "772", "unknown", False),
        ("/sys/devices/virtual/net/veth0", "1", "up", False),
        ("/sys/devices/pci0000:00/ib0", "32", "up", False),
    ],
)
def test_physical_interfaces_count(device: str, kind: str, state: str, counts: bool) -> None:
    assert is_physical(device, kind, state) is counts


def fake_root(tmp_path: Path, **files: str) -> Path:
    """A root whose control group is /app, with these files."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/elsewhere\n0::/app\n")
    group = tmp_path / "sys/fs/cgroup/app"
    group.mkdir(parents=True)
    for name, text in files.items():
        (group / name.replace("_", ".", 1)).write_text(text)
    return tmp_path


def test_a_quota_is_measured_by_the_group_and_its_absence_by_the_machine(tmp_path: Path) -> None:
    files = {"cpu_max": "200000 100000", "cpu_stat": "usage_usec 7000000"}
    limited = HostSampler(SystemClock(), root=fake_root(tmp_path, **files))()
    assert (limited.cpu_busy_s, limited.cpu_limit_percent) == (7.0, 200.0)
    machine = HostSampler(SystemClock(), root=tmp_path / "nothing")()
    assert machine.cpu_limit_percent >= 100.0
    assert machine.cpu_busy_s > 0


@pytest.mark.parametrize("tree", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("group", ["", "docker/abc"])
def test_limits_of_version_1_are_those_of_the_container(
    tmp_path: Path, tree: str, group: str
) -> None:
    """Inside a container its own group is mounted as the root, or at the path of the machine."""
    files = {
        "proc/self/cgroup": "12:cpu,cpuacct:/docker/abc\n11:memory:/docker/abc\n1:name=x:/\n",
        f"sys/fs/cgroup/{tree}/{group}/cpu.cfs_quota_us": "50000\n",
        f"sys/fs/cgroup/{tree}/{group}/cpu.cfs_period_us": "100000\n",
        f"sys/fs/cgroup/{tree.replace('cpu', 'cpuacct') if tree == 'cpu' else tree}/{group}/"
        "cpuacct.usage": "7000000000\n",
        f"sys/fs/cgroup/memory/{group}/memory.limit_in_bytes": "67108864\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = HostSampler(SystemClock(), root=tmp_path)()
    assert (found.cpu_busy_s, found.cpu_limit_percent) == (7.0, 50.0)
    assert found.memory_limit_mib == 64.0
    # Without a quota the machine is measured.
    (tmp_path / f"sys/fs/cgroup/{tree}/{group}/cpu.cfs_quota_us").write_text("-1\n")
    assert HostSampler(SystemClock(), root=tmp_path)().cpu_limit_percent >= 100.0


def test_the_memory_limit_is_never_more_than_the_machine_has(tmp_path: Path) -> None:
    small = HostSampler(SystemClock(), root=fake_root(tmp_path, memory_max="67108864"))()
    assert small.memory_limit_mib == 64.0
    (tmp_path / "sys/fs/cgroup/app/memory.max").write_text("9223372036854771712")
    unlimited = HostSampler(SystemClock(), root=tmp_path)()
    assert 64.0 < unlimited.memory_limit_mib < 1e9
    assert 1.0 < unlimited.memory_mib < unlimited.memory_limit_mib


@pytest.mark.parametrize(
    ("nics", "why"),
    [
        ({"eth0": NicSample(0, 0, GBIT)}, ""),
        ({}, "no network interface is counted"),
        ({"eth0": NicSample(0, 0, 0.0)}, "no speed of eth0"),
        ({"a": NicSample(0, 0, 0.0), "b": NicSample(0, 0, GBIT)}, "no speed of a"),
    ],
)
async def test_bandwidth_without_a_limit_is_said_once(
    nics: dict[str, NicSample], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    usage = HostUsage(lambda: replace(AFTER, nics=nics), first_window_s=0.0)
    await usage.measure()
    await usage.measure()
    said = [record.getMessage() for record in caplog.records]
    assert [why in text and "loadBalancerOverrideBrokerNicSpeedGbps" in text for text in said] == (
        [True] if why else []
    )


def test_named_interfaces_count_whatever_they_are_at_the_speed_that_was_given() -> None:
    sample = HostSampler(SystemClock(), nics=["lo"], nic_speed_gbps=2.5)()
    assert set(sample.nics) == {"lo"}
    assert sample.nics["lo"].speed_kbit_s == 2_500_000.0


async def test_the_first_measurement_is_of_a_window_and_the_next_of_the_time_since() -> None:
    samples = iter([BEFORE, AFTER, replace(AFTER, at_s=120.0, cpu_busy_s=66.0)])
    usage = HostUsage(lambda: next(samples), first_window_s=0.0)
    assert (await usage.measure()).cpu.usage == 150.0
    assert (await usage.measure()).cpu.usage == pytest.approx(10.0)


async def test_a_process_that_computes_is_seen() -> None:
    usage = HostUsage(HostSampler(SystemClock()), first_window_s=0.0)
    await usage.measure()
    end_s = SystemClock().now_s() + 0.2
    while SystemClock().now_s() < end_s:
        sum(range(1000))
    measured = await usage.measure()
    assert measured.cpu.usage > 20.0
    assert measured.cpu.limit >= 100.0
