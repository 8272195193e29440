"""Where the past is kept, and how much of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import given
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """History: where the past is kept, and how much of it."""

    directory: Annotated[
        Path | None,
        Setting(
            "loadHistoryDirectory",
            "Directory for segments of load history, which the pipeline reads; daemons may share "
            "one. Empty: none is written.",
        ),
    ] = None
    segment_max_bytes: Annotated[
        int,
        Setting(
            "loadHistorySegmentMaxBytes",
            "A segment of history is completed when it has so much, before it is compressed.",
            at_least=65_536,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 16 * 1024 * 1024
    segment_max_s: Annotated[
        float,
        Setting(
            "loadHistorySegmentMaxSeconds",
            "A segment of history is completed when it is so old.",
            at_least=0.1,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 300.0
    max_mib: Annotated[
        int,
        Setting(
            "loadHistoryMaxMebibytes",
            "Complete segments of this broker take up to so many MiB; the oldest go first.",
            at_least=1,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 1024
    max_segments: Annotated[
        int,
        Setting(
            "loadHistoryMaxSegments",
            "So many complete segments of this broker are kept; the oldest go first.",
            at_least=1,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 10_000
