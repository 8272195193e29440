"""From the rows of an events file to events.

    minute,broker,event,factor
    300,broker-2,down,
    540,broker-2,up,
    600,broker-3,capacity,0.7

``factor`` is the new capacity over the usual one; a file without such events needs no such column.
Rows may stand in any order. A broker whose first event is ``up`` is not there before.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.model.bounds import MOST_EVENTS, MOST_MINUTES
from broker_ctl.simulation.model.scenario import Event, EventKind
from broker_ctl.simulation.traces.table_file import Batch, TableFile

COLUMNS: Final = ("minute", "broker", "event")
OPTIONAL: Final = ("factor",)
_FACTORS: Final = (0.01, 100.0)
_MOST_NAME: Final = 255
_KINDS: Final = {kind.value: kind for kind in EventKind}
# What may have befallen a broker last, for something to apply_event it now; None is nothing.
_AFTER: Final[Mapping[EventKind, frozenset[EventKind | None]]] = {
    EventKind.UP: frozenset({None, EventKind.DOWN}),
    EventKind.DOWN: frozenset({None, EventKind.UP, EventKind.DRAIN}),
    EventKind.DRAIN: frozenset({None, EventKind.UP}),
}
_STATE: Final[Mapping[EventKind | None, str]] = {
    EventKind.UP: "is there",
    EventKind.DOWN: "is down",
    EventKind.DRAIN: "is being drained, and goes down next",
}


def events_of(file: TableFile, batches: Iterable[Batch]) -> tuple[Event, ...]:
    """The events by minute; those of one minute in the order of the file.

    Raises:
        SettingsError: a value that is not allowed, an event that cannot follow a broker's last one,
            no rows, too many.
    """
    placed: list[tuple[int, Event]] = []
    for batch in batches:
        placed += _locate_events(file, batch)
        if len(placed) > MOST_EVENTS:
            raise file.fault(f"more than {MOST_EVENTS} events", placed[-1][0])
    if not placed:
        raise file.fault("no rows")
    placed.sort(key=lambda pair: pair[1].minute)
    last: dict[str, EventKind] = {}
    for row, event in placed:
        before = last.get(event.broker_id)
        if event.kind is EventKind.CAPACITY:
            # Who has a capacity is there; what is down stays down.
            last.setdefault(event.broker_id, EventKind.UP)
        elif before not in _AFTER[event.kind]:
            raise file.fault(f"{event.broker_id}: {event.kind}, but it {_STATE[before]}", row)
        else:
            last[event.broker_id] = event.kind
    return tuple(event for _, event in placed)


def _locate_events(file: TableFile, batch: Batch) -> Iterator[tuple[int, Event]]:
    """The events of some rows, each with its row."""
    minutes = file.whole(batch, "minute", MOST_MINUTES - 1).tolist()
    brokers, kinds = batch.texts("broker"), batch.texts("event")
    is_name = np.array([0 < len(broker) <= _MOST_NAME for broker in brokers])
    file.check(batch, "broker", is_name, f"a name of 1 to {_MOST_NAME} letters")
    is_kind = np.array([kind in _KINDS for kind in kinds])
    file.check(batch, "event", is_kind, f"one of {', '.join(_KINDS)}")
    events = zip(minutes, brokers, map(_KINDS.__getitem__, kinds), strict=True)
    has_factor = np.array([kind == EventKind.CAPACITY for kind in kinds])
    factors = _factors(file, batch, has_factor)
    for row, event, factor in zip(batch.rows.tolist(), events, factors, strict=True):
        yield row, Event(*event, factor)


def _factors(file: TableFile, batch: Batch, has_factor: NDArray[np.bool_]) -> list[float]:
    """Of each row; 1 where the event has none."""
    if "factor" not in batch.columns:
        if has_factor.any():
            row = int(batch.rows[np.argmax(has_factor)])
            raise file.fault("event 'capacity': it needs a column factor", row)
        return [1.0] * len(has_factor)
    least, most = _FACTORS
    factors = batch.numbers("factor")
    values = [batch.value("factor", offset) for offset in range(len(factors))]
    is_blank = np.array([value in {"", None} or _is_nan(value) for value in values])
    is_right = np.where(has_factor, (factors >= least) & (factors <= most), is_blank)
    allowed = f"a number from {least:g} to {most:g} for a capacity, nothing for another event"
    file.check(batch, "factor", is_right, allowed)
    return [float(factor) for factor in np.where(has_factor, factors, 1.0)]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
