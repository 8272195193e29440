"""What a captured or made-up proof of a placement is good for: nothing, at other brokers."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.lab.time import ManualClock
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.placement_proofs import LIFETIME_MS, PlacementProofs, ProofFailure
from broker_ctl.security.signed_requests import MAX_SKEW_MS

KEYS = ClusterKeys.of([bytes(range(32))])
BUNDLE, OTHER = Ring.even(Namespace("public", "default"), 2).bundles
CHOSEN = "b-2:8080"


@dataclass
class Scene:
    """A leader, and the broker that it chooses."""

    clock: ManualClock = field(default_factory=ManualClock)
    known_epoch: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def at(
        self, broker_id: str = CHOSEN, keys: ClusterKeys = KEYS, *, is_required: bool = True
    ) -> PlacementProofs:
        def fail(reason: str) -> None:
            self.failures[reason] += 1

        return PlacementProofs(
            keys,
            broker_id,
            self.clock,
            is_required=is_required,
            epoch=lambda: self.known_epoch,
            on_failure=fail,
        )

    def proof(self, *, epoch: int = 7, keys: ClusterKeys = KEYS) -> str:
        known, self.known_epoch = self.known_epoch, epoch
        made = self.at("b-1:8080", keys).make(BUNDLE, CHOSEN)
        self.known_epoch = known
        return made


def test_a_proof_counts_for_its_broker_and_its_bundle_only() -> None:
    scene = Scene()
    proof = scene.proof()
    assert scene.at().accept(proof, BUNDLE)
    assert not scene.failures
    assert not scene.at().accept(proof, OTHER)
    assert not scene.at("b-3:8080").accept(proof, BUNDLE)
    assert not scene.at(keys=ClusterKeys.of([b"x" * 32])).accept(proof, BUNDLE)
    assert scene.failures == {"wrong": 3}


def test_a_proof_is_safe_in_a_url() -> None:
    proof = Scene().proof()
    assert all(char.isalnum() or char in ".-_" for char in proof)


def test_a_proof_ends() -> None:
    scene = Scene()
    proof = scene.proof()
    scene.clock.time_s += (LIFETIME_MS + MAX_SKEW_MS) / 1000
    assert scene.at().failure_of(proof, BUNDLE) is None
    scene.clock.time_s += 1
    assert scene.at().failure_of(proof, BUNDLE) is ProofFailure.EXPIRED


def test_a_proof_of_a_deposed_leader_counts_no_more() -> None:
    scene = Scene(known_epoch=7)
    assert scene.at().failure_of(scene.proof(epoch=7), BUNDLE) is None
    assert scene.at().failure_of(scene.proof(epoch=8), BUNDLE) is None
    assert scene.at().failure_of(scene.proof(epoch=6), BUNDLE) is ProofFailure.STALE_EPOCH


def test_a_changed_proof_is_wrong() -> None:
    scene = Scene()
    version, epoch, expires, signature = scene.proof().split(".")
    for changed in (
        f"2.{epoch}.{expires}.{signature}",
        f"{version}.{int(epoch) + 1}.{expires}.{signature}",
        f"{version}.{epoch}.{int(expires) + 1}.{signature}",
        f"{version}.{epoch}.{expires}.{signature[:-1]}",
        f"{version}.{epoch}.{expires}.{'A' * 48}",
        f"{version}.{epoch}.{expires}.{signature}.",
        f"{version}.-1.{expires}.{signature}",
        f"{version}.{'9' * 19}.{expires}.{signature}",
        f"{version}.\u0663.{expires}.{signature}",
        "\udcff",
        "A" * 10_000,
    ):
        assert scene.at().failure_of(changed, BUNDLE) is ProofFailure.WRONG, changed


@pytest.mark.parametrize("is_required", [False, True])
def test_what_is_not_proven_is_counted_and_refused_where_proofs_are_required(
    is_required: bool,
) -> None:
    scene = Scene()
    proofs = scene.at(is_required=is_required)
    assert proofs.accept("", BUNDLE) is not is_required
    assert proofs.accept("nonsense", BUNDLE) is not is_required
    assert scene.failures == {"missing": 1, "wrong": 1}
