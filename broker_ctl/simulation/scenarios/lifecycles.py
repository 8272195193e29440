"""Brokers that die, restart, come and go."""

from dataclasses import replace

from broker_ctl.simulation.model.scenario import Event, EventKind
from broker_ctl.simulation.scenarios.draft import Draft, Size, everyday

_HOUR_MIN = 60
_DEATHS_MIN = (5 * _HOUR_MIN, 14 * _HOUR_MIN)
_DEAD_MIN = 4 * _HOUR_MIN
_RESTARTS_FROM_MIN = 8 * _HOUR_MIN
_RESTART_EVERY_MIN = 15
_RESTART_DRAIN_MIN = 2
_RESTART_DOWN_MIN = 3
_SCALE_AT_MIN = 6 * _HOUR_MIN
_LEAVE_EVERY_MIN = 5
_LEAVE_DRAIN_MIN = 30


def broker_death(size: Size) -> Draft:
    """A broker dies and comes back hours later; later in the day another one does."""
    events = [
        event
        for broker_id, minute in zip(size.broker_ids[1:], _DEATHS_MIN, strict=False)
        for event in (
            Event(minute, broker_id, EventKind.DOWN),
            Event(minute + _DEAD_MIN, broker_id, EventKind.UP),
        )
    ]
    return replace(everyday(size), events=tuple(events))


def rolling_restart(size: Size) -> Draft:
    """One broker after another is drained, stops and comes back."""
    events = []
    for index, broker_id in enumerate(size.broker_ids):
        drain = _RESTARTS_FROM_MIN + index * _RESTART_EVERY_MIN
        down = drain + _RESTART_DRAIN_MIN
        events += [
            Event(drain, broker_id, EventKind.DRAIN),
            Event(down, broker_id, EventKind.DOWN),
            Event(down + _RESTART_DOWN_MIN, broker_id, EventKind.UP),
        ]
    return replace(everyday(size), events=tuple(events))


def scale_out(size: Size) -> Draft:
    """Half of the brokers carry everything, until the other half comes."""
    half = size.brokers // 2
    coming = size.broker_ids[half:]
    return replace(
        everyday(size),
        loaded=half,
        odds=(1.0,) * half + (0.0,) * len(coming),
        absent=frozenset(coming),
        events=tuple(Event(_SCALE_AT_MIN, broker_id, EventKind.UP) for broker_id in coming),
    )


def scale_in(size: Size) -> Draft:
    """All brokers carry what half of them can; the other half is drained and stops."""
    half = size.brokers // 2
    events = []
    for index, broker_id in enumerate(size.broker_ids[half:]):
        drain = _SCALE_AT_MIN + index * _LEAVE_EVERY_MIN
        events += [
            Event(drain, broker_id, EventKind.DRAIN),
            Event(drain + _LEAVE_DRAIN_MIN, broker_id, EventKind.DOWN),
        ]
    return replace(everyday(size), loaded=half, events=tuple(events))
