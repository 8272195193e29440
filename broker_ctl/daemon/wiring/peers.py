"""Wiring of requests between brokers: who they are, and what proves a placement."""

from collections.abc import Callable
from ssl import SSLContext

from broker_ctl.api.http.access.peer_requests import BrokerCertificates, PeerRequests
from broker_ctl.coordination.election import Election
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.security import broker_identity
from broker_ctl.peer_http import SignFor
from broker_ctl.security.certificates.peer_certificate import PeerContexts
from broker_ctl.security.placement_proofs import PlacementProofs, ProofFailure
from broker_ctl.security.signed_requests import Refusal, RequestSigner
from broker_ctl.settings.root import Settings

# How this broker proves its requests to other brokers, and judges theirs.


def peer_signer(base: Foundation) -> SignFor | None:
    """Signs this broker's requests to another one; None: the cluster has no keys."""
    keys, wall_ms = base.cluster_keys, base.clock.wall_ms
    if keys is None:
        return None
    signer = RequestSigner(keys, base.urls.broker_id)
    return lambda target, start: (
        lambda method, path, body: signer.sign(target, method, path, body, wall_ms(), start=start)
    )


def peer_requests(base: Foundation) -> PeerRequests | None:
    """Judges the signed requests of others; None: the cluster has no keys."""
    keys, security = base.cluster_keys, base.settings.security
    if keys is None:
        return None
    refused = base.instruments.security.refused_requests
    for kind in Refusal:
        refused.start(kind.value)
    return PeerRequests(
        keys,
        base.urls.broker_id,
        base.clock,
        role=security.broker_client_role,
        is_required=security.cluster_key_required,
        on_refusal=refused.add,
        bounds=base.instruments.bounds,
    )


def broker_certificates(base: Foundation) -> BrokerCertificates | None:
    """Judges the certificates of others; None: brokers do not prove their ids to each other."""
    identity, security = broker_identity(base.settings), base.settings.security
    if identity is None:
        return None
    return BrokerCertificates(identity, security.broker_client_role, base.clock)


def peer_contexts(settings: Settings, tls: SSLContext | None) -> Callable[[str], SSLContext] | None:
    """The context for requests to each broker; None: brokers do not prove their ids."""
    identity = broker_identity(settings)
    return None if tls is None or identity is None else PeerContexts(tls, identity).of


# How redirects of lookups prove the choice of the leader.


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
