"""Payloads of operators' directives: pause, drains, approved plans and their progress.

All lie under /broker-ctl. Texts are cut to their bound when they are read, too: others can write
these nodes by hand.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.cluster.directives import (
    MOST_WHO,
    AuditInfo,
    Drain,
    DrainTerms,
    MaintenanceWindow,
    Pause,
)
from broker_ctl.core.planning.approval import ApprovalState, Fate, Fates
from broker_ctl.errors import InvalidName
from broker_ctl.store.records.decisions import decision_fields, decode_decision
from broker_ctl.store.records.fields import Fields, with_format_version

# Part of the 1 MiB that a node may hold (jute.maxbuffer) is for the request around it.
MOST_PLAN_BYTES: Final = 768 * 1024
# Of a pause; names of brokers are far shorter than 100 bytes.
_MOST_LOST: Final = 5000


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """Pauses the balancer: the leader moves nothing by itself."""

    pause: Pause

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        lost = fields.texts("lostBrokers")[:_MOST_LOST]
        is_automatic, rollout_id = (
            fields.flag("automatic", default=False),
            fields.text("rollout", ""),
        )
        return cls(Pause(_order(fields), is_automatic, lost, rollout_id))

    def encode(self) -> bytes:
        """The payload."""
        return encode(
            with_format_version(
                {
                    **_order_row(self.pause.order),
                    "automatic": self.pause.is_automatic,
                    "lostBrokers": list(self.pause.lost[:_MOST_LOST]),
                    "rollout": self.pause.rollout_id,
                }
            )
        )


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """Marks a broker as draining, with the number of bundles that it had then."""

    drain: Drain

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        return cls(
            Drain(
                _order(fields),
                fields.integer("bundles"),
                fields.number("throughputBytes"),
                fields.integer("endsMs", 0),
                fields.text("endsAfterRun", ""),
                fields.text("rollout", ""),
            )
        )

    def encode(self) -> bytes:
        """The payload."""
        drain = self.drain
        return encode(
            with_format_version(
                {
                    **_order_row(drain.order),
                    "bundles": drain.bundles,
                    "throughputBytes": drain.throughput_bytes,
                    "endsMs": drain.ends_ms,
                    "endsAfterRun": drain.ends_after,
                    "rollout": drain.rollout_id,
                }
            )
        )


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """A drain that the leader begins at its time."""

    window: MaintenanceWindow

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        terms = DrainTerms(
            fields.integer("beginsMs"),
            fields.integer("endsMs"),
            fields.flag("untilRestart", default=False),
            fields.flag("forced", default=False),
        )
        return cls(MaintenanceWindow(_order(fields), terms))

    def encode(self) -> bytes:
        """The payload."""
        terms = self.window.terms
        return encode(
            with_format_version(
                {
                    **_order_row(self.window.order),
                    "beginsMs": terms.begins_ms,
                    "endsMs": terms.ends_ms,
                    "untilRestart": terms.until_restart,
                    "forced": terms.is_forced,
                }
            )
        )


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan that an operator approved; it never changes.

    Attributes:
        epoch: of the leader that made it.
        decisions: in the order of the plan; loads are those of when they are carried out.
        in_force_until_ms: until then balance leaves alone what the plan has taken care of, in ms
            since 1970; 0: it is for the moment only.
        proposed_by: role of the proposer, as ``order`` names the approver; empty: unknown.
    """

    plan_id: str
    epoch: int
    order: AuditInfo
    decisions: tuple[Action, ...]
    in_force_until_ms: int = 0
    proposed_by: str = ""

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        decisions = tuple(map(decode_decision, fields.items("decisions")))
        return cls(
            fields.text("id"),
            fields.integer("epoch"),
            _order(fields),
            decisions,
            fields.integer("inForceUntilMs", 0),
            fields.text("proposedBy", "")[:MOST_WHO],
        )

    def encode(self) -> bytes:
        """The payload."""
        return encode(
            with_format_version(
                {
                    "id": self.plan_id,
                    "epoch": self.epoch,
                    **_order_row(self.order),
                    "decisions": [decision_fields(decision) for decision in self.decisions],
                    "inForceUntilMs": self.in_force_until_ms,
                    "proposedBy": self.proposed_by,
                }
            )
        )


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """How far a plan has come.

    Attributes:
        fates: one for each decision.
        changed_ms: when this was written, in ms since 1970.
        note: why it was stopped.
    """

    state: ApprovalState
    fates: Fates
    changed_ms: int
    note: str = ""

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        return cls(
            fields.parsed("state", _state),
            fields.parsed("fates", _fates),
            fields.integer("changedMs"),
            fields.text("note", ""),
        )

    def encode(self) -> bytes:
        """The payload."""
        return encode(
            with_format_version(
                {
                    "state": self.state.value,
                    "fates": "".join(fate.value for fate in self.fates),
                    "changedMs": self.changed_ms,
                    "note": self.note,
                }
            )
        )


def _order(fields: Fields) -> AuditInfo:
    return AuditInfo.of(fields.integer("sinceMs"), fields.text("by", ""), fields.text("reason", ""))


def _order_row(order: AuditInfo) -> dict[str, Any]:
    return {"sinceMs": order.at_ms, "by": order.who, "reason": order.why}


def _state(text: str) -> ApprovalState:
    try:
        return ApprovalState(text)
    except ValueError:
        raise InvalidName(f"{text[:40]!r} is not a state of a plan") from None


def _fates(text: str) -> Fates:
    try:
        return tuple(map(Fate, text))
    except ValueError as error:
        raise InvalidName(str(error)) from None
