"""Isolation policies and failure domains, with the live brokers that each covers now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker_ctl.console.pages.frame import Row


@dataclass(frozen=True, slots=True)
class Policy:
    """One isolation policy; ``primary`` and ``secondary`` are the live brokers that it has."""

    name: str
    row: Row
    primary: tuple[str, ...]
    secondary: tuple[str, ...]

    @property
    def least(self) -> str:
        """Primary brokers below which the secondary ones are used."""
        policy = self.row.get("auto_failover_policy") or {}
        return str((policy.get("parameters") or {}).get("min_limit", "0"))

    @property
    def is_short(self) -> bool:
        """Whether fewer primary brokers are alive than it asks for."""
        least = self.least
        return least.isdecimal() and len(self.primary) < int(least)


@dataclass(frozen=True, slots=True)
class Policies:
    """The page; ``free`` are live brokers that no policy names."""

    policies: tuple[Policy, ...]
    free: tuple[str, ...]
    domains: Mapping[str, tuple[str, ...]]


def policies_page(
    policies: Mapping[str, Row], matches: Sequence[Row], domains: Mapping[str, Any]
) -> Policies:
    """The page of the API's rows; a broker counts for the first policy that has it."""

    def covered(name: str, *, is_primary: bool) -> tuple[str, ...]:
        return tuple(
            row["brokerName"]
            for row in matches
            if row.get("policyName") == name and row["primary"] is is_primary
        )

    return Policies(
        tuple(
            Policy(
                name,
                row,
                covered(name, is_primary=True),
                covered(name, is_primary=False),
            )
            for name, row in policies.items()
        ),
        tuple(row["brokerName"] for row in matches if not row.get("policyName")),
        {name: tuple(row.get("brokers", ())) for name, row in sorted(domains.items())},
    )
