"""What the settings say of the simulated data plane."""

import random
from collections.abc import Mapping

import pytest

from broker_ctl.core.model.load import SystemUsage
from broker_ctl.daemon.wiring.dataplanes import build_dataplane
from broker_ctl.errors import SettingsError
from broker_ctl.lab.time import ManualClock
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.simulation.scenarios import scenario


async def usage_of(values: Mapping[str, object], at_s: float = 0.0) -> SystemUsage:
    """Of a broker that serves the first bundle of ``steady-skew`` for two brokers."""
    start = {"simulatedWorkload": "steady-skew", "simulatedBrokers": 2}
    clock = ManualClock()
    plane = build_dataplane(
        Settings().with_values({**start, **values}, {}), clock, random.Random(1), Reloader()
    )
    await plane.start()
    clock.time_s += at_s
    plane.grant(1, clock.time_s + 10)
    await plane.load(scenario("steady-skew", brokers=2).traffic.bundles[0], 1)
    usage = await plane.usage()
    await plane.stop()
    assert usage is not None
    return usage


def expected_bytes_s(minute: int) -> float:
    traffic = scenario("steady-skew", brokers=2).traffic
    return float(traffic.bytes_in[minute, 0] + traffic.bytes_out[minute, 0])


async def test_a_scenario_brings_what_a_broker_can_take() -> None:
    capacity = scenario("steady-skew", brokers=2).brokers["broker-1"]
    ratio = expected_bytes_s(0) / capacity.bytes_s
    assert (await usage_of({})).cpu.percent == pytest.approx(ratio * 100, rel=1e-5)


async def test_a_setting_says_otherwise() -> None:
    values = {"simulatedMaxBytesPerSecond": 4 * expected_bytes_s(0), "simulatedMaxMsgRate": 1e9}
    assert (await usage_of(values)).cpu.percent == pytest.approx(25.0, rel=1e-5)
    values["simulatedMaxMsgRate"] = 1e-6
    assert (await usage_of(values)).cpu.percent == 100.0


@pytest.mark.parametrize(("minute_s", "minute"), [(60.0, 1), (1.0, 90), (0.5, 180)])
async def test_a_shorter_minute_makes_the_scenario_go_by_faster(
    minute_s: float, minute: int
) -> None:
    usage = await usage_of({"simulatedMinuteSeconds": minute_s}, at_s=90.0)
    bytes_s = (usage.bandwidth_in.usage + usage.bandwidth_out.usage) * 1000 / 8
    assert bytes_s == pytest.approx(expected_bytes_s(minute), rel=1e-5)
    assert expected_bytes_s(minute) != pytest.approx(expected_bytes_s(0), rel=1e-3)


async def test_a_scenario_of_too_few_brokers_is_refused() -> None:
    with pytest.raises(SettingsError, match="1 brokers; 2 to"):
        await usage_of({"simulatedBrokers": 1})
