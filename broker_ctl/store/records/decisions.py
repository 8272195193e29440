"""Decisions as they lie in the store: what is to be done and why, without the loads of the moment.

They are read back as proposals: the executor checks them against the state of the cluster at that
time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Reason, Split, Transfer, Unload
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import InvalidName
from broker_ctl.store.records.fields import Fields, with_format_version

_MOST_DETAIL: Final = 300


def decision_fields(decision: Action) -> dict[str, Any]:
    """Plain JSON values."""
    common = {
        "kind": decision.kind,
        "why": decision.reason.value,
        "detail": decision.detail[:_MOST_DETAIL],
    }
    match decision:
        case Assign():
            return {**common, "bundle": str(decision.bundle), "to": decision.destination}
        case Unload():
            return {**common, "bundle": str(decision.bundle), "from": decision.source}
        case Transfer():
            ends = {"from": decision.source, "to": decision.destination}
            return {**common, "bundle": str(decision.bundle), **ends}
        case Split():
            return {
                **common,
                "bundle": str(decision.bundle),
                "owner": decision.owner,
                "algorithm": decision.algorithm,
                "boundaries": list(decision.boundaries),
            }
        case Merge():
            pair = {"left": str(decision.left), "right": str(decision.right)}
            return {**common, **pair, "owner": decision.owner}


def decode_decision(fields: Fields) -> Action:
    """Read one back.

    Raises:
        CorruptRecord: it does not fit.
    """
    kind, why = fields.text("kind"), fields.parsed("why", _reason)
    detail = fields.text("detail", "")[:_MOST_DETAIL]
    if kind == Assign.kind:
        return Assign(fields.parsed("bundle", Bundle.parse), fields.text("to"), why, detail)
    if kind == Unload.kind:
        return Unload(fields.parsed("bundle", Bundle.parse), fields.text("from"), why, detail)
    if kind == Transfer.kind:
        return Transfer(
            bundle=fields.parsed("bundle", Bundle.parse),
            source=fields.text("from"),
            destination=fields.text("to"),
            reason=why,
            detail=detail,
            load_vector=NO_LOAD,
            source_before=NO_LOAD,
            destination_before=NO_LOAD,
        )
    if kind == Split.kind:
        return Split(
            fields.parsed("bundle", Bundle.parse),
            fields.text("owner"),
            fields.text("algorithm"),
            fields.integers("boundaries"),
            why,
            detail,
        )
    if kind == Merge.kind:
        return Merge(
            fields.parsed("left", Bundle.parse),
            fields.parsed("right", Bundle.parse),
            fields.text("owner"),
            why,
            detail,
        )
    raise fields.corrupt("kind", f"{kind[:40]!r} is not a kind of decision")


def _reason(text: str) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        raise InvalidName(f"{text[:40]!r} is not a reason") from None


def encode_kept_decisions(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The payload of a node of ``/broker-ctl/decisions``: rows as `broker-ctl history` has them."""
    return encode(with_format_version({"decisions": rows}))


def decode_kept_decisions(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """The rows, the oldest first.

    Raises:
        CorruptRecord, NewerVersion: a row is not what `broker-ctl history` shows.
    """
    rows: list[Mapping[str, Any]] = []
    for fields in Fields.of_ours(path, data).items("decisions"):
        for name in ("kind", "sentence", "result"):
            fields.text(name)
        for name in ("at_ms", "epoch", "cycle"):
            fields.integer(name)
        rows.append(fields.values)
    return rows
