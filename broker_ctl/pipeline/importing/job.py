"""The import job: from series to segments, as the daemons of the cluster would have left them.

Each hour has segments of its own, whose names and ids depend on the cluster and the hour only: an
hour that is imported again replaces its segments, and `ingest` recognises its lines.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from broker_ctl.core.model.counting import batched
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.importing.observed import Observed, Written, rows_of
from broker_ctl.pipeline.importing.series import Recording, TimeSpan, observe
from broker_ctl.pipeline.synthesis.segments import Moment, SegmentFiles

_HOUR_MS: Final = 3_600_000
# The rows are of one term of a leader that never was.
_EPOCH: Final = 1
_WRITER: Final = "prometheus"
_ROWS_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class ImportRules:
    """Rules of an import.

    Attributes:
        first_ms, end_ms: time that is imported; whole hours of it.
        step_ms: interval of the rows; must divide an hour.
        cluster: name of the cluster in the history.
        assumed_usage: mean usage of the brokers where nothing was recorded of it, 1.0 is full.
        bundles: number of bundles of a namespace, for clusters that expose topics only.
    """

    first_ms: int
    end_ms: int
    step_ms: int
    cluster: str
    assumed_usage: float
    bundles: int


class Imported(NamedTuple):
    """An hour.

    Attributes:
        cycles: moments of which there were series.
    """

    start_ms: int
    cycles: int
    segments: int
    rows: int


def hours_of(rules: ImportRules) -> range:
    """The beginnings of the whole hours."""
    first_ms = -(-rules.first_ms // _HOUR_MS) * _HOUR_MS
    return range(first_ms, rules.end_ms - _HOUR_MS + 1, _HOUR_MS)


async def import_hours(
    recording: Recording, directory: Path, rules: ImportRules
) -> AsyncIterator[Imported]:
    """Yield each hour after its segments are complete.

    Raises:
        HttpError: a server cannot be reached.
        PipelineError: it refuses, a snapshot cannot be read, or segments cannot be written.
    """
    for start_ms in hours_of(rules):
        span = TimeSpan(start_ms, start_ms + _HOUR_MS - rules.step_ms, rules.step_ms)
        seen = await observe(recording, rules.bundles, span)
        files = await asyncio.to_thread(_write_hour, seen, directory, rules, start_ms)
        yield Imported(start_ms, len(seen), files.files, sum(files.rows.values()))


def _write_hour(
    seen: Sequence[Observed], directory: Path, rules: ImportRules, start_ms: int
) -> SegmentFiles:
    # An hour says all that it needs: it can be imported without the ones before.
    written = Written()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with SegmentFiles(directory, [rules.cluster], start_ms) as files:
            for observed in seen:
                cycle = observed.at_ms // rules.step_ms
                moment = Moment(_WRITER, observed.at_ms, _EPOCH, cycle)
                for kind, rows in rows_of(observed, written, rules.assumed_usage):
                    for some in batched(rows, _ROWS_AT_ONCE):
                        files.write(kind, some, moment)
    except OSError as error:
        raise PipelineError(f"{directory}: {error.strerror or error}") from error
    return files
