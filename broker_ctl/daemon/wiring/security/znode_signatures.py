"""Whether payloads in ZooKeeper are signed, by the settings."""

from broker_ctl.clock import Clock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.security.rotation.newest_keys import NewestKeys
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.security import SignatureMode
from broker_ctl.store.interface import BulkStore
from broker_ctl.store.signed.families import FAMILIES
from broker_ctl.store.signed.signatures import Failure, ZnodeSignatures
from broker_ctl.store.signed.store import SignedStore


def signed_store(
    store: BulkStore,
    settings: Settings,
    keys: NewestKeys | None,
    instruments: StoreInstruments,
    clock: Clock,
) -> BulkStore:
    """Wrap ``store`` so that its payloads are signed; ``store`` itself without keys, or if off.

    Readers of unsigned payloads ignore the field of the signature.
    """
    mode = settings.security.znode_signatures
    if keys is None or settings.metadata.store_url is None or mode is SignatureMode.OFF:
        return store
    failures = instruments.signature_failures
    for family in FAMILIES:
        for failure in Failure:
            failures.start(family, failure.value)
    signatures = ZnodeSignatures(
        keys.kept(),
        signature_scope(settings),
        clock,
        is_required=requires_signatures(settings),
        on_failure=failures.add,
    )
    return SignedStore(store, signatures)


def requires_signatures(settings: Settings) -> bool:
    """Whether what a broker says through ZooKeeper counts only with a signature."""
    return settings.security.znode_signatures is SignatureMode.REQUIRE


def signature_scope(settings: Settings) -> str:
    """What the signatures of one cluster have in common, and those of others do not."""
    url = settings.metadata.store_url
    return f"{settings.broker.cluster_name}{'' if url is None else url.chroot}"
