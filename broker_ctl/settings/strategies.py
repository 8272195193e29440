"""Strategies that other packages bring along, by entry point, next to our own.

A package registers one under the group ``broker_ctl.shedding``, in its ``pyproject.toml``::

    [project.entry-points."broker_ctl.shedding"]
    NightShedder = "acme.balancing:NightShedder"

What stands there is called without arguments, and must have the functions of
`core.shedding.policy.SheddingPolicy`; under the group ``broker_ctl.placement``, those of
`core.placement.policy.PlacementPolicy`. Nothing of a package is imported before a setting names it.
Our own names cannot be taken over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import isgeneratorfunction
from typing import Any, Final, TypeVar

from broker_ctl.core.model.catalog import Catalog
from broker_ctl.core.strategies.catalog import SHEDDING
from broker_ctl.core.strategies.placement.catalog import PLACEMENT
from broker_ctl.core.strategies.placement.policy import PlacementPolicy
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.shedding.sequence import SheddingSequence
from broker_ctl.errors import SettingsError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OpenCatalog(Catalog[_T]):
    """Our strategies, and those of other packages.

    Attributes:
        group: of the entry points.
        functions: what a strategy must have.
    """

    group: str
    functions: tuple[str, ...]

    # Not super(): a dataclass with slots is made anew, and what is meant by it is not.
    def knows(self, name: str) -> bool:
        """Whether there is such a strategy; it is not loaded."""
        return Catalog.knows(self, name) or bool(_registered(self.group, self.short(name)))

    def find(self, name: str) -> _T:
        """The strategy by short name, by Pulsar's class name, or by entry point.

        Raises:
            SettingsError: no such strategy, several packages bring it, or it cannot be used.
        """
        if Catalog.knows(self, name) or not self.knows(name):
            return Catalog.find(self, name)
        strategy: _T = _loaded(self.group, self.short(name), self.functions)
        return strategy


def _registered(group: str, name: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group, name=name))


# One object for each name: who compares strategies must not take every look-up for a new one.
@cache
def _loaded(group: str, name: str, functions: tuple[str, ...]) -> Any:
    first, *others = _registered(group, name)
    where = f"entry point {name!r} of {group} ({first.value})"
    if others:
        values = " and ".join(sorted({first.value, *(other.value for other in others)}))
        raise SettingsError(f"entry point {name!r} of {group} is ambiguous: {values}")
    try:
        strategy = first.load()()
    except Exception as error:
        # Foreign code may fail in any way; the operator must hear which package it was.
        raise SettingsError(f"{where} does not load: {type(error).__name__}: {error}") from error
    missing = [each for each in functions if not callable(getattr(strategy, each, None))]
    if missing:
        raise SettingsError(f"{where} is no strategy: it has no {', '.join(missing)}")
    generators = [each for each in functions if isgeneratorfunction(getattr(strategy, each))]
    if generators:
        raise SettingsError(f"{where} is no strategy: {', '.join(generators)} must not yield")
    return strategy


SHEDDING_STRATEGIES: Final[OpenCatalog[SheddingPolicy[Any]]] = OpenCatalog(
    SHEDDING.kind,
    SHEDDING.entries,
    "broker_ctl.shedding",
    ("recall", "observe", "shed"),
)

PLACEMENT_STRATEGIES: Final[OpenCatalog[PlacementPolicy]] = OpenCatalog(
    PLACEMENT.kind, PLACEMENT.entries, "broker_ctl.placement", ("select",)
)


def shedding_policy(names: Sequence[str]) -> SheddingPolicy[Any]:
    """The strategy of that name, or several in their order; the same object for the same names.

    Raises:
        SettingsError: a name is unknown, or what it stands for cannot be used.
    """
    return _policy(tuple(dict.fromkeys(names)))


@cache
def _policy(names: tuple[str, ...]) -> SheddingPolicy[Any]:
    policies = {name: SHEDDING_STRATEGIES.find(name) for name in names}
    return policies[names[0]] if len(names) == 1 else SheddingSequence(policies)
