"""Which strategies of other packages may be loaded: their code runs inside the daemon."""

from collections.abc import Callable, Iterable
from typing import Final

from broker_ctl.settings.declarations import Declaration
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import Entry, Problem
from broker_ctl.settings.strategies import OpenCatalog

_KEY: Final = "allowedPlugins"


def plugin_refusal(
    declaration: Declaration, entry: Entry, may_load: Callable[[str], bool]
) -> Problem | None:
    """The problem with an entry that names a plug-in which may not be loaded; loads nothing."""
    catalog = declaration.setting.catalog
    if not isinstance(catalog, OpenCatalog):
        return None
    for text in entry.value.split(","):
        name = catalog.short(text.strip())
        if catalog.is_foreign(name) and not may_load(name):
            return Problem.of(entry, f"the strategy {name} of another package is not in {_KEY}")
    return None


def allowed_at_start(entries: Iterable[Entry]) -> Callable[[str], bool]:
    """What the sources of a daemon's own configuration, in their order, allow."""
    text = ""
    for entry in entries:
        if entry.key == _KEY:
            text = entry.value
    names = _names(text)
    return lambda name: not names or name in names


def allowed_at_run_time(start: Settings) -> Callable[[str], bool]:
    """What an override may name: an attacker who can write one chooses among these."""
    named = {*start.shedding.strategies, start.placement.strategy}
    names = frozenset(start.balancing.allowed_plugins) or named
    return lambda name: name in names


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())
