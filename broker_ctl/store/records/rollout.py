"""Payload of the rollout: one node, written by leaders only, under their epoch."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from broker_ctl.codec import encode
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.rollout.broker_machine import BrokerRolloutState as BrokerState
from broker_ctl.core.rollout.machine import RolloutState
from broker_ctl.core.rollout.rollout import MOST_NOTE, BrokerProgress, Rollout, RolloutTerms
from broker_ctl.errors import InvalidName
from broker_ctl.store.records.fields import Fields, with_format_version

# Part of the 1 MiB that a node may hold (jute.maxbuffer) is for the request around it.
MOST_ROLLOUT_BYTES: Final = 768 * 1024

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """The rollout of a cluster: the one in progress, or the last one."""

    rollout: Rollout

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        brokers = tuple(map(_broker, fields.items("brokers")))
        batches = tuple(each.texts("brokers") for each in fields.items("batches"))
        if [name for batch in batches for name in batch] != [each.broker_id for each in brokers]:
            raise fields.corrupt("brokers", "not those of the batches")
        return cls(
            Rollout(
                fields.text("id"),
                AuditInfo.of(
                    fields.integer("sinceMs"), fields.text("by", ""), fields.text("reason", "")
                ),
                RolloutTerms(
                    fields.text("wantedVersion", ""),
                    fields.integer("gateTimeoutSeconds"),
                    fields.flag("acceptsOverload", default=False),
                ),
                batches,
                brokers,
                fields.parsed("state", _parser(RolloutState)),
                fields.integer("moves", 0),
                fields.integer("leastMoves", 0),
                fields.number("msgRate"),
                fields.text("note", "")[:MOST_NOTE],
                fields.integer("changedMs"),
                fields.integers("liveReplicaIds"),
            )
        )

    def encode(self) -> bytes:
        """The payload."""
        rollout = self.rollout
        return encode(
            with_format_version(
                {
                    "id": rollout.rollout_id,
                    "sinceMs": rollout.order.at_ms,
                    "by": rollout.order.who,
                    "reason": rollout.order.why,
                    "wantedVersion": rollout.terms.version,
                    "gateTimeoutSeconds": rollout.terms.gate_timeout_s,
                    "acceptsOverload": rollout.terms.accepts_overload,
                    "batches": [{"brokers": list(batch)} for batch in rollout.batches],
                    "brokers": [_broker_row(each) for each in rollout.brokers],
                    "state": rollout.state.value,
                    "moves": rollout.moves,
                    "leastMoves": rollout.least_moves,
                    "msgRate": rollout.msg_rate,
                    "liveReplicaIds": rollout.live_ids,
                    "note": rollout.note,
                    "changedMs": rollout.changed_ms,
                }
            )
        )


def _broker(fields: Fields) -> BrokerProgress:
    return BrokerProgress(
        fields.text("broker"),
        fields.parsed("state", _parser(BrokerState)),
        fields.integer("changedMs", 0),
        fields.text("runBefore", ""),
        fields.flag("healthy", default=False),
        fields.text("detail", "")[:MOST_NOTE],
        fields.integer("heardMs", 0),
    )


def _broker_row(progress: BrokerProgress) -> dict[str, Any]:
    return {
        "broker": progress.broker_id,
        "state": progress.state.value,
        "changedMs": progress.changed_ms,
        "runBefore": progress.run_before,
        "healthy": progress.is_healthy,
        "detail": progress.detail,
        "heardMs": progress.heard_ms,
    }


def _parser(states: type[S]) -> Callable[[str], S]:
    def parse(text: str) -> S:
        try:
            return states(text)
        except ValueError:
            raise InvalidName(f"{text[:40]!r} is not a state of a rollout") from None

    return parse
