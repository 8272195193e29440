"""The parts of the reference that are made while the site is built."""

from collections.abc import Callable, Mapping
from typing import Final

from docs._ext import (
    reference_commands,
    reference_exit_codes,
    reference_http,
    reference_log_events,
    reference_metrics,
    reference_settings,
)

# Markdown by the name of the page below `docs/reference`.
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands": reference_commands.page,
    "exit-codes": reference_exit_codes.page,
    "http": reference_http.page,
    "log-events": reference_log_events.page,
    "metrics": reference_metrics.page,
    "settings": reference_settings.page,
}
