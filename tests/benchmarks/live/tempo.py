"""Sixty times as fast: a minute of the trace in a second, and every interval with it.

What no setting says stays as long as it is: the hour over which moved load is counted, the time for
which a bundle does not come back to a broker that it left, and the half-life of recent demands.
"""

from collections.abc import Mapping
from typing import Final

from broker_ctl.settings.root import Settings

_MINUTE_S: Final = 60.0

# Whatever says how long something is or how often it is done, of what reports, judges and moves.
INTERVALS: Final = (
    "loadBalancerReportUpdateMinIntervalMillis",
    "loadBalancerReportUpdateMaxIntervalMinutes",
    "loadBalancerHostUsageCheckIntervalMinutes",
    "loadBalancerLostBrokersWindowSeconds",
    "statsUpdateFrequencyInSecs",
    "loadBalancerBrokerLoadDataTTLInSeconds",
    "loadBalancerResourceQuotaUpdateIntervalMinutes",
    "loadBalancerSheddingIntervalMinutes",
    "loadBalancerSheddingGracePeriodMinutes",
    "loadBalanceSheddingDelayInSeconds",
    "loadBalancerSplitIntervalMinutes",
    "loadBalancerBundleMergeCoolDownMinutes",
    "loadBalancerPlannerSteadySeconds",
    "loadBalancerPlannerRecentSeconds",
    "loadBalancerPlannerReturnMinutes",
)
# Shares of the load that may move within an hour, which is one by the clock in either case.
_RATES: Final = {
    "loadBalancerMaxLoadMovedPerHourPercentage": None,
    "loadBalancerPlannerChurnPercentagePerHour": 100.0,
}


def paced(settings: Settings, minute_s: float) -> Mapping[str, str]:
    """The settings that bring a daemon to that pace, as texts of broker.conf."""
    ratio = minute_s / _MINUTE_S
    texts = {key: _scaled(settings.value(key), ratio, None) for key in INTERVALS}
    texts |= {key: _scaled(settings.value(key), 1 / ratio, most) for key, most in _RATES.items()}
    return {**texts, "simulatedMinuteSeconds": f"{minute_s:g}"}


def _scaled(value: object, ratio: float, most: float | None) -> str:
    assert isinstance(value, int | float)
    scaled = value * ratio if most is None else min(value * ratio, most)
    return str(max(1, round(scaled))) if isinstance(value, int) else f"{scaled:.6g}"
