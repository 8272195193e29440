"""Strategies by the names that a configuration file may use."""

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
        """A name without its package."""
        return name.rpartition(".")[2]

    def knows(self, name: str) -> bool:
        """Whether there is such a strategy."""
        return self.short(name) in self.entries

    def find(self, name: str) -> _T:
        """The strategy by short name or by Pulsar's class name.

        Raises:
            SettingsError: no such strategy; the message lists what there is.
        """
        short_name = self.short(name)
        if short_name not in self.entries:
            choices = ", ".join(sorted(self.entries))
            raise SettingsError(f"unknown {self.kind} {name!r}, allowed: {choices}")
        return self.entries[short_name]
