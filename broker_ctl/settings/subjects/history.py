"""The history of load and decisions on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import given
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """History: where load and decisions are recorded, and how much is kept."""

    directory: Annotated[
        Path | None,
        Setting(
            "loadHistoryDirectory",
            "Directory for segments of load history, the input of the pipeline; several "
            "daemons may share one. Empty: no history.",
        ),
    ] = None
    segment_max_bytes: Annotated[
        int,
        Setting(
            "loadHistorySegmentMaxBytes",
            "Size at which a history segment is completed, before compression.",
            at_least=65_536,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 16 * 1024 * 1024
    segment_max_s: Annotated[
        float,
        Setting(
            "loadHistorySegmentMaxSeconds",
            "Age at which a history segment is completed.",
            at_least=0.1,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 300.0
    max_mib: Annotated[
        int,
        Setting(
            "loadHistoryMaxMebibytes",
            "Maximum total size, in MiB, of this broker's completed history segments; the "
            "oldest are deleted first.",
            at_least=1,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 1024
    max_segments: Annotated[
        int,
        Setting(
            "loadHistoryMaxSegments",
            "Maximum number of this broker's completed history segments; the oldest are "
            "deleted first.",
            at_least=1,
            used_with=(given("loadHistoryDirectory"),),
        ),
    ] = 10_000
