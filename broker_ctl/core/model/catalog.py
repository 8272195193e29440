"""Finds strategies by the names that configuration files use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker_ctl.errors import SettingsError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Catalog(Generic[_T]):
    """Strategies of one kind by short name: Pulsar's class name without its package."""

    kind: str
    entries: Mapping[str, _T]

    def short(self, name: str) -> str:
        """Return a class name without its package."""
        return name.rpartition(".")[2]

    def knows(self, name: str) -> bool:
        """Return whether the catalog has a strategy of that name."""
        return self.short(name) in self.entries

    def find(self, name: str) -> _T:
        """Return the strategy with that short name or Pulsar class name.

        Raises:
            SettingsError: there is no such strategy; the message lists the valid names.
        """
        short_name = self.short(name)
        if short_name not in self.entries:
            choices = ", ".join(sorted(self.entries))
            raise SettingsError(f"unknown {self.kind} {name!r}, allowed: {choices}")
        return self.entries[short_name]
