"""How redirects of lookups prove the choice of the leader."""

from collections.abc import Callable

from broker_ctl.coordination.election.election import Election
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.security.placement_proofs import PlacementProofs, ProofFailure


def placement_proofs(
    base: Foundation, election: Election, newest_epoch: Callable[[], int]
) -> PlacementProofs | None:
    """Makes and judges proofs; None: the cluster has no keys.

    ``newest_epoch`` is the newest epoch of a leader that this broker knows.
    """
    if base.cluster_keys is None:
        return None

    def epoch() -> int:
        leadership = election.leadership
        return newest_epoch() if leadership is None else leadership.epoch

    unproven = base.instruments.security.unproven_lookups
    for failure in ProofFailure:
        unproven.start(failure.value)
    return PlacementProofs(
        base.cluster_keys,
        base.urls.broker_id,
        base.clock,
        is_required=base.settings.security.cluster_key_required,
        epoch=epoch,
        on_failure=unproven.add,
    )
