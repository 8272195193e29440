"""Files of traces: their rows, their events, and how they become a scenario.

From the rows of a trace to traffic, and back.

    minute,bundle,topics,msg_rate_in,msg_rate_out,bytes_in,bytes_out
    0,shop/orders/0x00000000_0x80000000,12,100,200,50000,100000

Rates are per second. A row holds until the bundle's next row; before its first a bundle carries
nothing. Rows may stand in any order.

From the rows of an events file to events.

    minute,broker,event,factor
    300,broker-2,down,
    540,broker-2,up,
    600,broker-3,capacity,0.7

``factor`` is the new capacity over the usual one; a file without such events needs no such column.
Rows may stand in any order. A broker whose first event is ``up`` is not there before.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Bundle, BundleRange
from broker_ctl.errors import InvalidName, SettingsError
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    MEAN_USAGE,
    MOST_BROKERS,
    MOST_BUNDLES,
    MOST_CELLS,
    MOST_EVENTS,
    MOST_MINUTES,
    MOST_TOPICS,
    Rates,
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
    Traffic,
    broker_ids,
    random_owners,
)
from broker_ctl.simulation.traces.tables import (
    BATCH_ROWS,
    CSV,
    PARQUET,
    Columns,
    RowBatch,
    TableFile,
    csv_batches,
    parquet_batches,
    write_csv,
    write_parquet,
)

RATES: Final = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
COLUMNS: Final = ("minute", "bundle", "topics", *RATES)
_MOST_RATE: Final = 1e15
_MOST_NAME: Final = 512

_ROW: Final = np.dtype(
    [
        ("place", np.int32),
        ("minute", np.int32),
        ("bundle", np.int32),
        ("topics", np.int32),
        *((name, np.float32) for name in RATES),
    ]
)
_Rows = NDArray[np.void]


@dataclass(slots=True)
class _Names:
    """The bundles that were named so far: their numbers, and the row that named each first."""

    file: TableFile
    numbers: dict[Bundle, int] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    _by_text: dict[str, int] = field(default_factory=dict)

    def of(self, batch: RowBatch) -> NDArray[np.int32]:
        """The number of each row's bundle."""
        texts = batch.texts("bundle")
        if not self._by_text.keys() >= set(texts):
            for text, row in zip(texts, batch.rows.tolist(), strict=True):
                if text not in self._by_text:
                    self._by_text[text] = self._number(text, row)
        return np.fromiter(map(self._by_text.__getitem__, texts), np.int32, len(texts))

    def _number(self, text: str, row: int) -> int:
        if len(text) > _MOST_NAME:
            raise self.file.fault(f"a bundle's name of {len(text)} letters", row)
        try:
            bundle = Bundle.parse(text)
        except InvalidName as error:
            raise self.file.fault(f"bundle {error}", row) from error
        if bundle not in self.numbers:
            if len(self.rows) == MOST_BUNDLES:
                raise self.file.fault(f"more than {MOST_BUNDLES} bundles", row)
            self.numbers[bundle] = len(self.rows)
            self.rows.append(row)
        return self.numbers[bundle]


def traffic_of(file: TableFile, batches: Iterable[RowBatch]) -> Traffic:
    """The traffic of a trace; what its bundles leave of a ring is filled with silent ones.

    Raises:
        SettingsError: a value that is not allowed, a second row for a minute of a bundle, bundles
            that overlap, no rows, too many.
    """
    names = _Names(file)
    rows = _gather(file, batches, names)
    bundles = _check_coverage(file, names)
    minutes = int(rows["minute"].max()) + 1
    if minutes * len(bundles) > MOST_CELLS:
        text = f"{minutes} minutes of {len(bundles)} bundles"
        raise file.fault(f"{text}; at most {MOST_CELLS} when multiplied")
    column_of = {bundle: column for column, bundle in enumerate(bundles)}
    rows["bundle"] = np.array([column_of[bundle] for bundle in names.numbers])[rows["bundle"]]
    rows = _in_order(file, rows, bundles)
    latest = _latest(rows, minutes, len(bundles))
    rates = (np.concatenate([np.zeros(1, np.float32), rows[name]])[latest] for name in RATES)
    return Traffic(bundles, _topics(file, rows, bundles), *rates)


def changes(traffic: Traffic) -> Iterator[Columns]:
    """The rows of a trace, column by column, some rows at once.

    All bundles have one in the first minute and in the last, and between whenever something
    changed.
    """
    names = [str(bundle) for bundle in traffic.bundles]
    topics = np.array([len(topics.shares) for topics in traffic.topics])
    rates = {name: getattr(traffic, name) for name in RATES}
    has_row = np.ones((traffic.minutes, len(names)), dtype=np.bool_)
    has_row[1:-1] = False
    for values in rates.values():
        has_row[1:] |= values[1:] != values[:-1]
    minutes, bundles = np.nonzero(has_row)
    for start in range(0, len(minutes), BATCH_ROWS):
        some = slice(start, start + BATCH_ROWS)
        minute, bundle = minutes[some], bundles[some]
        yield {
            "minute": minute,
            "bundle": [names[number] for number in bundle],
            "topics": topics[bundle],
            **{name: values[minute, bundle] for name, values in rates.items()},
        }


def _gather(file: TableFile, batches: Iterable[RowBatch], names: _Names) -> _Rows:
    parts, count = [], 0
    for batch in batches:
        part = np.empty(len(batch.rows), _ROW)
        part["place"] = batch.rows
        part["minute"] = file.whole(batch, "minute", MOST_MINUTES - 1)
        part["bundle"] = names.of(batch)
        part["topics"] = file.whole(batch, "topics", MOST_TOPICS)
        for name in RATES:
            rates = batch.numbers(name)
            is_right = (rates >= 0) & (rates <= _MOST_RATE)
            file.check(batch, name, is_right, f"a number from 0 to {_MOST_RATE:g}")
            part[name] = rates
        parts.append(part)
        count += len(part)
        if count > MOST_CELLS:
            raise file.fault(f"more than {MOST_CELLS} rows", int(batch.rows[-1]))
    if not count:
        raise file.fault("no rows")
    return np.concatenate(parts)


def _check_coverage(file: TableFile, names: _Names) -> tuple[Bundle, ...]:
    """The bundles by name and range, and others where there is a hole in a ring."""
    covering: list[Bundle] = []
    for namespace, bundles in groupby(sorted(names.numbers), key=lambda bundle: bundle.namespace):
        end = RING_LOW
        for bundle in bundles:
            if bundle.range.low < end:
                row = max(names.rows[names.numbers[each]] for each in (bundle, covering[-1]))
                raise file.fault(f"bundles {covering[-1]} and {bundle} overlap", row)
            if bundle.range.low > end:
                covering.append(Bundle(namespace, BundleRange(end, bundle.range.low)))
            covering.append(bundle)
            end = bundle.range.high
        if end < RING_HIGH:
            covering.append(Bundle(namespace, BundleRange(end, RING_HIGH)))
    return tuple(covering)


def _in_order(file: TableFile, rows: _Rows, bundles: tuple[Bundle, ...]) -> _Rows:
    """By minute, and then by bundle; rows that are equal in both are refused."""
    key = rows["minute"].astype(np.int64) * len(bundles) + rows["bundle"]
    order = np.argsort(key, kind="stable")
    again = order[1:][key[order[1:]] == key[order[:-1]]]
    if again.size:
        row = rows[again.min()]
        text = f"a second row for minute {row['minute']} of {bundles[row['bundle']]}"
        raise file.fault(text, int(row["place"]))
    return rows[order]


def _latest(rows: _Rows, minutes: int, bundles: int) -> NDArray[np.int32]:
    """Which row holds for each minute of each bundle, from 1 on; 0 for none."""
    latest = np.zeros((minutes, bundles), np.int32)
    latest[rows["minute"], rows["bundle"]] = np.arange(1, len(rows) + 1)
    # Rows are by minute: of two rows of a bundle the later one has the larger number.
    return np.maximum.accumulate(latest, axis=0, out=latest)


def _topics(file: TableFile, rows: _Rows, bundles: tuple[Bundle, ...]) -> tuple[TopicShares, ...]:
    """As many as a bundle's first row says; one for none, so that a split has something to cut."""
    counts = np.ones(len(bundles), np.int64)
    columns, firsts = np.unique(rows["bundle"], return_index=True)
    counts[columns] = np.maximum(rows["topics"][firsts], 1)
    if counts.sum() > MOST_TOPICS:
        raise file.fault(f"{counts.sum()} topics; at most {MOST_TOPICS}")
    return tuple(map(TopicShares.even, bundles, counts.tolist()))


TRACE_EVENTS_COLUMNS: Final = ("minute", "broker", "event")
OPTIONAL: Final = ("factor",)
_FACTORS: Final = (0.01, 100.0)
_TRACE_EVENTS_MOST_NAME: Final = 255
_KINDS: Final = {kind.value: kind for kind in ScenarioEventKind}
# What may have befallen a broker last, for something to apply_event it now; None is nothing.
_AFTER: Final[Mapping[ScenarioEventKind, frozenset[ScenarioEventKind | None]]] = {
    ScenarioEventKind.UP: frozenset({None, ScenarioEventKind.DOWN}),
    ScenarioEventKind.DOWN: frozenset({None, ScenarioEventKind.UP, ScenarioEventKind.DRAIN}),
    ScenarioEventKind.DRAIN: frozenset({None, ScenarioEventKind.UP}),
}
_STATE: Final[Mapping[ScenarioEventKind | None, str]] = {
    ScenarioEventKind.UP: "is there",
    ScenarioEventKind.DOWN: "is down",
    ScenarioEventKind.DRAIN: "is being drained, and goes down next",
}


def events_of(file: TableFile, batches: Iterable[RowBatch]) -> tuple[ScenarioEvent, ...]:
    """The events by minute; those of one minute in the order of the file.

    Raises:
        SettingsError: a value that is not allowed, an event that cannot follow a broker's last one,
            no rows, too many.
    """
    placed: list[tuple[int, ScenarioEvent]] = []
    for batch in batches:
        placed += _locate_events(file, batch)
        if len(placed) > MOST_EVENTS:
            raise file.fault(f"more than {MOST_EVENTS} events", placed[-1][0])
    if not placed:
        raise file.fault("no rows")
    placed.sort(key=lambda pair: pair[1].minute)
    last: dict[str, ScenarioEventKind] = {}
    for row, event in placed:
        before = last.get(event.broker_id)
        if event.kind is ScenarioEventKind.CAPACITY:
            # Who has a capacity is there; what is down stays down.
            last.setdefault(event.broker_id, ScenarioEventKind.UP)
        elif before not in _AFTER[event.kind]:
            raise file.fault(f"{event.broker_id}: {event.kind}, but it {_STATE[before]}", row)
        else:
            last[event.broker_id] = event.kind
    return tuple(event for _, event in placed)


def _locate_events(file: TableFile, batch: RowBatch) -> Iterator[tuple[int, ScenarioEvent]]:
    """The events of some rows, each with its row."""
    minutes = file.whole(batch, "minute", MOST_MINUTES - 1).tolist()
    brokers, kinds = batch.texts("broker"), batch.texts("event")
    is_name = np.array([0 < len(broker) <= _TRACE_EVENTS_MOST_NAME for broker in brokers])
    file.check(batch, "broker", is_name, f"a name of 1 to {_TRACE_EVENTS_MOST_NAME} letters")
    is_kind = np.array([kind in _KINDS for kind in kinds])
    file.check(batch, "event", is_kind, f"one of {', '.join(_KINDS)}")
    events = zip(minutes, brokers, map(_KINDS.__getitem__, kinds), strict=True)
    has_factor = np.array([kind == ScenarioEventKind.CAPACITY for kind in kinds])
    factors = _factors(file, batch, has_factor)
    for row, event, factor in zip(batch.rows.tolist(), events, factors, strict=True):
        yield row, ScenarioEvent(*event, factor)


def _factors(file: TableFile, batch: RowBatch, has_factor: NDArray[np.bool_]) -> list[float]:
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


# A scenario of recorded traffic and events.


_OWNERS_SEED: Final = 0
# A broker is short of bytes before it is short of messages, as in the named scenarios.
_MESSAGES_USAGE: Final = MEAN_USAGE / 2


def build_trace_scenario(
    name: str, traffic: Traffic, brokers: int, events: Iterable[ScenarioEvent] = ()
) -> Scenario:
    """Build a scenario of equal brokers, which the traffic fills to the usual mean usage.

    Owners are drawn, the same each time. A broker whose first event is ``up`` is absent at the
    start; what would happen after the end does not.

    Raises:
        SettingsError: no brokers or too many, an event of a broker that there is not, nobody there
            at the start, no traffic.
    """
    if not 1 <= brokers <= MOST_BROKERS:
        raise SettingsError(f"{brokers} brokers: 1 to {MOST_BROKERS}")
    ids = broker_ids(brokers)
    in_order = tuple(sorted(events, key=lambda event: event.minute))
    absent = _absent(ids, in_order)
    in_time = tuple(event for event in in_order if event.minute < traffic.minutes)
    odds = [0.0 if broker_id in absent else 1.0 for broker_id in ids]
    if not any(odds):
        raise SettingsError("events: no broker is there at the start")
    capacity = _capacity(traffic, _presence(traffic.minutes, ids, absent, in_time))
    rng = np.random.Generator(np.random.PCG64(_OWNERS_SEED))
    owners = random_owners(rng, ids, odds, len(traffic.bundles))
    return Scenario(name, traffic, dict.fromkeys(ids, capacity), owners, absent, in_time)


def _absent(ids: tuple[str, ...], events: tuple[ScenarioEvent, ...]) -> frozenset[str]:
    """Those whose first event is that they come."""
    first: dict[str, ScenarioEventKind | None] = dict.fromkeys(ids)
    for event in reversed(events):
        if event.broker_id not in first:
            text = f"{event.kind} of {event.broker_id!r} at minute {event.minute}"
            raise SettingsError(f"events: {text}; the brokers are {ids[0]} to {ids[-1]}")
        first[event.broker_id] = event.kind
    return frozenset(broker_id for broker_id, kind in first.items() if kind is ScenarioEventKind.UP)


def _presence(
    minutes: int, ids: tuple[str, ...], absent: frozenset[str], events: tuple[ScenarioEvent, ...]
) -> NDArray[np.float64]:
    """Number of present brokers by minute, in units of a usual one."""
    factors = dict.fromkeys(ids, 1.0)
    here = set(ids) - absent
    changes = np.zeros(minutes)
    changes[0] = len(here)
    for event in events:
        broker_id = event.broker_id
        before = factors[broker_id] if broker_id in here else 0.0
        match event.kind:
            case ScenarioEventKind.UP:
                here.add(broker_id)
            case ScenarioEventKind.DOWN:
                here.discard(broker_id)
            case ScenarioEventKind.CAPACITY:
                factors[broker_id] = event.factor
            case ScenarioEventKind.DRAIN:
                pass
        changes[event.minute] += (factors[broker_id] if broker_id in here else 0.0) - before
    # What is left of sums that should be 0 is not a broker.
    return np.cumsum(changes).round(9)


def _capacity(traffic: Traffic, there: NDArray[np.float64]) -> Capacity:
    """What the traffic fills to the mean usage; if nobody counted bytes, messages do."""
    messages = _per_broker(there, traffic.msg_rate_in, traffic.msg_rate_out)
    bytes_s = _per_broker(there, traffic.bytes_in, traffic.bytes_out)
    if bytes_s > 0 and messages > 0:
        return Capacity(messages / _MESSAGES_USAGE, bytes_s / MEAN_USAGE)
    if bytes_s > 0:
        return Capacity(bytes_s=bytes_s / MEAN_USAGE)
    if messages > 0:
        return Capacity(msg_rate=messages / MEAN_USAGE)
    raise SettingsError("trace: no traffic")


def _per_broker(there: NDArray[np.float64], rates_in: Rates, rates_out: Rates) -> float:
    """The mean over the minutes in which a broker is there."""
    total = rates_in.sum(axis=1, dtype=np.float64) + rates_out.sum(axis=1, dtype=np.float64)
    return float((total[there > 0] / there[there > 0]).mean())


# Recorded traffic and events in CSV or Parquet files, by the suffix of the name.


_MOST_HEADER: Final = 1024


def read_traffic(path: Path) -> Traffic:
    """The traffic of a trace file; ``trace_rows`` has the format.

    Raises:
        SettingsError: no such file, or a malformed one; names file and row.
    """
    file = _trace(path)
    return traffic_of(file, _batches(file))


def is_of_bundles(path: Path) -> bool:
    """Whether a trace is of bundles, by its suffix or first line; others are of topics."""
    if path.suffix.lower() == PARQUET:
        return True
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return "bundle" in file.readline(_MOST_HEADER).strip().split(",")
    except OSError as error:
        raise _trace(path).fault(str(error)) from error


def read_events(path: Path) -> tuple[ScenarioEvent, ...]:
    """The events of an events file; ``trace_events`` has the format.

    Raises:
        SettingsError: no such file, or a malformed one; names file and row.
    """
    file = _of_known_format(TableFile("events", path, TRACE_EVENTS_COLUMNS, OPTIONAL))
    return events_of(file, _batches(file))


def write_traffic(traffic: Traffic, path: Path) -> None:
    """A trace file that `read_traffic` reads; of the topics it has the numbers only.

    Raises:
        SettingsError: it cannot be written.
    """
    file = _trace(path)
    write = write_csv if file.suffix == CSV else write_parquet
    write(file, changes(traffic))


def _trace(path: Path) -> TableFile:
    return _of_known_format(TableFile("trace", path, COLUMNS))


def _of_known_format(file: TableFile) -> TableFile:
    if file.suffix not in {CSV, PARQUET}:
        raise file.fault(f"a name that ends in {CSV} or {PARQUET}")
    return file


def _batches(file: TableFile) -> Iterator[RowBatch]:
    return csv_batches(file) if file.suffix == CSV else parquet_batches(file)
