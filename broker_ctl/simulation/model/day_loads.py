"""The load of a scenario by the day, in mean brokers (`core.planning.size_history`)."""

import numpy as np

from broker_ctl.core.planning.size_history import DayLoad
from broker_ctl.simulation.model.scenario import Scenario

_HOUR_MIN = 60
_DAY_HOURS = 24


def day_loads(scenario: Scenario) -> list[DayLoad]:
    """The fullest hour of each day, by the brokers of the first minute; whole days only."""
    traffic, capacities = scenario.traffic, list(scenario.brokers.values())
    msg_rate = (traffic.msg_rate_in + traffic.msg_rate_out).sum(axis=1, dtype=np.float64)
    bytes_s = (traffic.bytes_in + traffic.bytes_out).sum(axis=1, dtype=np.float64)
    mean_msg_rate = sum(each.msg_rate for each in capacities) / len(capacities)
    mean_bytes_s = sum(each.bytes_s for each in capacities) / len(capacities)
    filled = np.maximum(msg_rate / mean_msg_rate, bytes_s / mean_bytes_s)
    hours = len(filled) // _HOUR_MIN
    days = hours // _DAY_HOURS
    minutes = days * _DAY_HOURS * _HOUR_MIN
    by_hour = filled[:minutes].reshape(days, _DAY_HOURS, _HOUR_MIN).mean(axis=2)
    peaks = by_hour.max(axis=1).tolist()
    return [DayLoad(f"day {number}", peak) for number, peak in enumerate(peaks, 1)]
