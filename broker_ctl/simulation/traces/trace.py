"""Trace files: recorded or invented traffic as CSV, one row per topic and minute.

    minute,topic,msg_rate_in,msg_rate_out,bytes_in,bytes_out
    0,persistent://public/default/orders,100,200,50000,100000

Rates are per second. A row holds until the topic's next row, so a topic that falls silent needs a
row of zeros. Rows may stand in any order.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from broker_ctl.core.model.names import Topic
from broker_ctl.errors import InvalidName, SettingsError
from broker_ctl.simulation.model.curves import Steps, TopicRates

COLUMNS: Final = ("minute", "topic", "msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")


def read_trace(path: Path) -> Mapping[str, Steps]:
    """The curve of each topic, by its complete name.

    Raises:
        SettingsError: no such file, or a malformed line; names file and line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return parse_trace(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"trace {path}: {error}") from error


def parse_trace(lines: Iterable[str], source: str) -> Mapping[str, Steps]:
    """Read the lines of a trace; ``source`` is named in errors.

    Raises:
        SettingsError: a malformed line; names source and line.
    """
    levels: dict[str, dict[int, TopicRates]] = defaultdict(dict)
    rows = csv.reader(lines, strict=True)
    try:
        if tuple(next(rows, [])) != COLUMNS:
            raise ValueError(f"the first line must be {','.join(COLUMNS)}")
        for row in rows:
            if row:
                minute, topic, traffic = _parse_row(row)
                if minute in levels[topic]:
                    raise ValueError(f"a second row for minute {minute} of {topic}")
                levels[topic][minute] = traffic
    except (ValueError, InvalidName, csv.Error) as error:
        raise SettingsError(f"trace {source}:{max(rows.line_num, 1)}: {error}") from error
    if not levels:
        raise SettingsError(f"trace {source}: no rows")
    return {topic: _steps(by_minute) for topic, by_minute in sorted(levels.items())}


def _parse_row(row: list[str]) -> tuple[int, str, TopicRates]:
    if len(row) != len(COLUMNS):
        raise ValueError(f"{len(row)} fields; expected {len(COLUMNS)}: {','.join(COLUMNS)}")
    if not (row[0].isascii() and row[0].isdigit()):
        raise ValueError(f"minute {row[0]!r}: a whole number from 0 on")
    rate_in, rate_out, bytes_in, bytes_out = map(_parse_rate, COLUMNS[2:], row[2:])
    # A trace counts no clients: one on each side that has traffic.
    traffic = TopicRates(
        rate_in, rate_out, bytes_in, bytes_out, int(rate_in > 0), int(rate_out > 0)
    )
    return int(row[0]), str(Topic.parse(row[1])), traffic


def _parse_rate(column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{column} {text!r}: a number from 0 on")
    return value


def _steps(by_minute: Mapping[int, TopicRates]) -> Steps:
    minutes = sorted(by_minute)
    return Steps(
        tuple(60.0 * minute for minute in minutes),
        tuple(by_minute[minute] for minute in minutes),
    )
