"""Who shares the cluster without being one of us (docs: mixed-cluster)."""

from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore


async def find_foreign_brokers(store: MetadataStore) -> list[str]:
    """Brokers in Pulsar's registry that are no broker-ctl process."""
    foreign = []
    for name in await store.children(paths.LOAD_REPORTS):
        # Both nodes of a broker come in one transaction and go with one session, so they are
        # read together: one list after the other would accuse whoever comes or goes between.
        report, registration = await store.get_many(
            [paths.load_report(name), paths.registration(name)]
        )
        if report is not None and registration is None:
            foreign.append(name)
    return foreign
