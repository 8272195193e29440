"""The calls of a client, and how their outcomes compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

OK: Final = "ok"
_MOST_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call.

    Attributes:
        kind: ``ok``, or the name of the error.
        status: of HTTP, where the client shows it; 0: it does not.
        value: plain JSON, without addresses.
        reason: of the error; never compared.
    """

    kind: str
    status: int = 0
    value: Any = None
    reason: str = ""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Outcome":
        return cls(
            row["outcome"], int(row.get("status", 0)), row.get("value"), row.get("reason", "")
        )

    def to_row(self) -> dict[str, Any]:
        if self.kind == OK:
            return {"outcome": OK, "value": self.value}
        return {"outcome": self.kind, "status": self.status, "reason": self.reason}

    @property
    def shown(self) -> str:
        if self.kind == OK:
            return OK if self.value is None else f"{OK} {self.value}"[:_MOST_SHOWN]
        return f"{self.kind} {self.status or ''}".strip()

    def equals(self, other: "Outcome") -> bool:
        """Whether they are the same for a client, but for the words of an error."""
        return (self.kind, self.status, self.value) == (other.kind, other.status, other.value)


class Verdict(StrEnum):
    """How a call compares."""

    EQUAL = "equal"
    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"
    STALE = "stale explanation"


@dataclass(frozen=True, slots=True)
class Row:
    """One call beside the same call at a real Pulsar."""

    call: str
    ours: Outcome
    pulsars: Outcome
    why: str

    @property
    def verdict(self) -> Verdict:
        if self.ours.equals(self.pulsars):
            return Verdict.STALE if self.why else Verdict.EQUAL
        return Verdict.EXPLAINED if self.why else Verdict.UNEXPLAINED

    def to_row(self) -> dict[str, Any]:
        return {
            "call": self.call,
            "ours": self.ours.to_row(),
            "pulsar": self.pulsars.to_row(),
            "verdict": self.verdict,
            "why": self.why,
        }


def compared(
    ours: Mapping[str, Outcome], pulsars: Mapping[str, Outcome], reasons: Mapping[str, str]
) -> list[Row]:
    """A row for each call, in the order of the client.

    Raises:
        ValueError: the two sides did not make the same calls, or a reason is of none of them.
    """
    if ours.keys() != pulsars.keys():
        raise ValueError(f"calls of one side alone: {sorted(ours.keys() ^ pulsars.keys())}")
    if unknown := reasons.keys() - ours.keys():
        raise ValueError(f"reasons of no call: {sorted(unknown)}")
    return [Row(call, ours[call], pulsars[call], reasons.get(call, "")) for call in ours]


def reasons_of(client: str, reasons: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """By call: each group has a reason, and the calls that it is of.

    Those of a client (``java``) count for each release of it (``java-5.0.1``), which may have more.

    Raises:
        ValueError: a call has two reasons.
    """
    found: dict[str, str] = {}
    for name in {client.partition("-")[0], client}:
        for group in reasons.get(name, []):
            for call in group["calls"]:
                if call in found:
                    raise ValueError(f"{call} has two reasons")
                found[call] = group["why"]
    return found


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows have each verdict."""
    found = dict.fromkeys(Verdict, 0)
    for row in rows:
        found[row.verdict] += 1
    return {str(verdict): number for verdict, number in found.items()}


def table(rows: Sequence[Row]) -> str:
    """For people: a line for each call."""
    wide = max((len(row.call) for row in rows), default=0)
    return "\n".join(
        f"{row.call:<{wide}}  {row.verdict:<11}  {row.ours.shown}"
        + ("" if row.verdict is Verdict.EQUAL else f"  |  Pulsar: {row.pulsars.shown}")
        + (f"  |  {row.why}" if row.why else "")
        for row in rows
    )
