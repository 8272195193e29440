"""Strategies of other packages, found by entry point.

A package registers one under the group ``broker_ctl.shedding``, in its ``pyproject.toml``::

    [project.entry-points."broker_ctl.shedding"]
    NightShedder = "acme.balancing:NightShedder"

The entry point is called without arguments. Its result must have the functions of
`core.strategies.shedding.policy.SheddingPolicy` or, in the group ``broker_ctl.placement``, those of
`core.strategies.placement.policy.PlacementPolicy`. A package is not imported before a setting names
its strategy. Names of built-in strategies cannot be replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import isgeneratorfunction
from typing import Any, Final, TypeVar

from broker_ctl.core.model.counting import Catalog
from broker_ctl.core.strategies.placement.strategies import PLACEMENT, PlacementPolicy
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy, SheddingSequence
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from broker_ctl.errors import SettingsError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OpenCatalog(Catalog[_T]):
    """The built-in strategies, and those of other packages.

    Attributes:
        group: group of the entry points.
        functions: functions that a strategy must have.
    """

    group: str
    functions: tuple[str, ...]

    # Not super(): a dataclass with slots is a new class, which super() would not refer to.
    def knows(self, name: str) -> bool:
        """Return whether there is such a strategy, without loading it."""
        return Catalog.knows(self, name) or bool(_registered(self.group, self.short(name)))

    def is_foreign(self, name: str) -> bool:
        """Return whether a strategy of another package has this name, without loading it."""
        return not Catalog.knows(self, name) and self.knows(name)

    def find(self, name: str) -> _T:
        """Find a strategy by short name, by Pulsar's class name, or by entry point.

        Raises:
            SettingsError: there is no such strategy, several packages have it, or it cannot be
                used.
        """
        if Catalog.knows(self, name) or not self.knows(name):
            return Catalog.find(self, name)
        strategy: _T = _loaded(self.group, self.short(name), self.functions)
        return strategy


def _registered(group: str, name: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group, name=name))


# One object per name: a comparison of strategies must not see each look-up as a new one.
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
        # Code of other packages may raise anything; the error must name the package.
        raise SettingsError(f"{where} does not load: {type(error).__name__}: {error}") from error
    missing = [each for each in functions if not callable(getattr(strategy, each, None))]
    if missing:
        raise SettingsError(f"{where} is not a strategy: it has no {', '.join(missing)}")
    generators = [each for each in functions if isgeneratorfunction(getattr(strategy, each))]
    if generators:
        raise SettingsError(f"{where} is not a strategy: {', '.join(generators)} must not yield")
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
    """The strategy of that name, or several in their order; equal names give the same object.

    Raises:
        SettingsError: a name is unknown, or its strategy cannot be used.
    """
    return _policy(tuple(dict.fromkeys(names)))


@cache
def _policy(names: tuple[str, ...]) -> SheddingPolicy[Any]:
    policies = {name: SHEDDING_STRATEGIES.find(name) for name in names}
    return policies[names[0]] if len(names) == 1 else SheddingSequence(policies)
