"""From the rows of a trace to traffic, and back.

    minute,bundle,topics,msg_rate_in,msg_rate_out,bytes_in,bytes_out
    0,shop/orders/0x00000000_0x80000000,12,100,200,50000,100000

Rates are per second. A row holds until the bundle's next row; before its first a bundle carries
nothing. Rows may stand in any order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.bundle import Bundle, BundleRange
from broker_ctl.core.model.names import RING_HIGH, RING_LOW
from broker_ctl.errors import InvalidName
from broker_ctl.simulation.model.bounds import MOST_BUNDLES, MOST_CELLS, MOST_MINUTES, MOST_TOPICS
from broker_ctl.simulation.model.scenario import TopicShares, Traffic
from broker_ctl.simulation.traces.table_file import BATCH_ROWS, Batch, Columns, TableFile

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

    def of(self, batch: Batch) -> NDArray[np.int32]:
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


def traffic_of(file: TableFile, batches: Iterable[Batch]) -> Traffic:
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


def _gather(file: TableFile, batches: Iterable[Batch], names: _Names) -> _Rows:
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
