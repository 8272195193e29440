"""The row of a decision."""

from typing import assert_never

from broker_ctl.core.cluster.decisions import Assign, Decision, Merge, Skip, Split, Transfer, Unload
from broker_ctl.core.history.deeds import DecisionRow


def decision_row(decision: Decision, result: str, outcome: str, took_s: float) -> DecisionRow:
    """With what came of it; for the last three see `Outcome`."""
    row = DecisionRow(
        decision.kind, decision.reason.value, decision.detail, result, outcome, took_s
    )
    match decision:
        case Skip(subject):
            return row._replace(subject=subject)
        case Assign(bundle, destination):
            return row._replace(bundle=str(bundle), destination=destination)
        case Unload(bundle, source):
            return row._replace(bundle=str(bundle), source=source)
        case Transfer():
            return _transfer(row, decision)
        case Split(bundle, owner, algorithm, boundaries):
            return row._replace(
                bundle=str(bundle), source=owner, algorithm=algorithm, boundaries=boundaries
            )
        case Merge(left, right, owner):
            return row._replace(bundle=str(left), right_bundle=str(right), source=owner)
    assert_never(decision)


def _transfer(row: DecisionRow, transfer: Transfer) -> DecisionRow:
    return row._replace(
        bundle=str(transfer.bundle),
        source=transfer.source,
        destination=transfer.destination,
        throughput_bytes=transfer.footprint.throughput_bytes,
        source_usage_before_ratio=transfer.source_before.usage_ratio,
        source_usage_after_ratio=transfer.source_after.usage_ratio,
        destination_usage_before_ratio=transfer.destination_before.usage_ratio,
        destination_usage_after_ratio=transfer.destination_after.usage_ratio,
    )
