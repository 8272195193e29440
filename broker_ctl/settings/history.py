"""Where the past is kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.model import Setting


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """History: where the past is kept."""

    directory: Annotated[
        Path | None,
        Setting(
            "loadHistoryDirectory",
            "Directory for the history of decisions; empty: none is written.",
        ),
    ] = None
