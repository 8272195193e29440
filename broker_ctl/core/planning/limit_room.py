"""The room that limits of brokers and caps of topics leave while moves are under way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final

# How much of each limit, by its name.
Amounts = Mapping[str, float]
NO_AMOUNTS: Final[Amounts] = MappingProxyType({})


@dataclass(slots=True)
class LimitRoom:
    """What every broker holds in the worst case: bundles count from the start of their moves.

    Attributes:
        held: by broker and limit.
        most: likewise.
        otherwise: the limit of what is not in ``most``.
    """

    held: dict[str, dict[str, float]] = field(default_factory=dict)
    most: Mapping[str, Amounts] = field(default_factory=dict)
    otherwise: float = inf

    def copy(self) -> "LimitRoom":
        """One that changes on its own."""
        held = {broker_id: dict(amounts) for broker_id, amounts in self.held.items()}
        return LimitRoom(held, self.most, self.otherwise)

    def exceeded_by(self, broker_id: str, amounts: Amounts) -> str | None:
        """A limit that the broker would exceed with these amounts; None: it has room for them."""
        most, held = self.most.get(broker_id, {}), self.held.get(broker_id, {})
        for name, amount in amounts.items():
            limit = most.get(name, self.otherwise)
            # Rounding must not decide.
            if amount > 0 and held.get(name, 0.0) + amount > limit * (1 + 1e-9):
                return name
        return None

    def add(self, broker_id: str, amounts: Amounts) -> None:
        """These amounts come."""
        held = self.held.setdefault(broker_id, {})
        for name, amount in amounts.items():
            held[name] = held.get(name, 0.0) + amount

    def subtract(self, broker_id: str, amounts: Amounts) -> None:
        """These amounts have left; rounding must not leave less than nothing."""
        held = self.held.setdefault(broker_id, {})
        for name, amount in amounts.items():
            held[name] = max(0.0, held.get(name, 0.0) - amount)

    def blocked(self, moves: Iterable[tuple[str, str, Amounts]]) -> Mapping[int, str]:
        """Make moves (source, receiver, amounts) one after another, as far as limits allow.

        Returns, by number, those that have no room even then, and what they would exceed.
        """
        found: dict[int, str] = {}
        for number, (source, destination, amounts) in enumerate(moves):
            name = self.exceeded_by(destination, amounts)
            if name is not None:
                found[number] = name
                continue
            self.add(destination, amounts)
            self.subtract(source, amounts)
        return found
