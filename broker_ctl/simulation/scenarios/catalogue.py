"""The twelve scenarios by name (docs: load-history-sources)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.bounds import MOST_CELLS, MOST_MINUTES
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.scenarios.consumers import flapping_consumers
from broker_ctl.simulation.scenarios.draft import BUNDLES_PER_BROKER, Draft, Size, everyday
from broker_ctl.simulation.scenarios.giants import giant_bundle, giant_topic
from broker_ctl.simulation.scenarios.hardware import mixed_hardware
from broker_ctl.simulation.scenarios.lifecycles import (
    broker_death,
    rolling_restart,
    scale_in,
    scale_out,
)
from broker_ctl.simulation.scenarios.skew import steady_skew
from broker_ctl.simulation.scenarios.tenancy import flash_crowd, tenant_onboarding

BROKERS: Final = 10
_MOST_HOURS: Final = MOST_MINUTES // 60


@dataclass(frozen=True, slots=True)
class _Entry:
    """A builder with its own seed; ``is_daily`` if a day resembles the one before it."""

    build: Callable[[Size], Draft]
    seed: int
    is_daily: bool = False


_ENTRIES: Final[Mapping[str, _Entry]] = MappingProxyType(
    {
        "steady-skew": _Entry(steady_skew, 1, is_daily=True),
        "diurnal": _Entry(everyday, 2, is_daily=True),
        "flash-crowd": _Entry(flash_crowd, 3, is_daily=True),
        "giant-bundle": _Entry(giant_bundle, 4, is_daily=True),
        "giant-topic": _Entry(giant_topic, 5, is_daily=True),
        "broker-death": _Entry(broker_death, 6),
        "rolling-restart": _Entry(rolling_restart, 7),
        "scale-out": _Entry(scale_out, 8),
        "scale-in": _Entry(scale_in, 9),
        "mixed-hardware": _Entry(mixed_hardware, 10, is_daily=True),
        "tenant-onboarding": _Entry(tenant_onboarding, 11),
        "flapping-consumers": _Entry(flapping_consumers, 12, is_daily=True),
    }
)
NAMES: Final[tuple[str, ...]] = tuple(_ENTRIES)


def scenario(
    name: str, *, brokers: int | None = None, hours: int = 24, seed: int | None = None
) -> Scenario:
    """One of `NAMES`; equal arguments give equal scenarios, to the bit.

    Args:
        name: which.
        brokers: how many are ever there, 10 if not said.
        hours: how long; what would happen later does not.
        seed: another one than the scenario's own.

    Raises:
        SettingsError: no such scenario, or one that is too small or too large.
    """
    entry = _entry(name)
    if not 1 <= hours <= _MOST_HOURS:
        raise SettingsError(f"scenario {name}: {hours} hours; 1 to {_MOST_HOURS}")
    count = BROKERS if brokers is None else brokers
    most = MOST_CELLS // (hours * 60 * BUNDLES_PER_BROKER)
    if not 2 <= count <= most:
        raise SettingsError(f"scenario {name}: {count} brokers; 2 to {most} for {hours} hours")
    own = entry.seed if seed is None else seed
    if own < 0:
        raise SettingsError(f"scenario {name}: seed {own}; 0 or more")
    size = Size(count, hours * 60, own)
    return entry.build(size).scenario(name)


def is_daily(name: str) -> bool:
    """Whether a day of it resembles the one before, so that 48 hours say more than 24.

    Raises:
        SettingsError: no such scenario.
    """
    return _entry(name).is_daily


def _entry(name: str) -> _Entry:
    entry = _ENTRIES.get(name)
    if entry is None:
        raise SettingsError(f"scenario {name!r}: one of {', '.join(NAMES)}")
    return entry
