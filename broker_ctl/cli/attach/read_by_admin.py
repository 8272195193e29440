"""`broker-ctl attach` without ZooKeeper: which cluster it is, and who holds the state."""

import asyncio
from collections.abc import Iterable
from typing import Final

from broker_ctl.cli.runtime.output import echo
from broker_ctl.daemon.lifecycle.attached import Attached, admin_of
from broker_ctl.dataplane.pulsar.reader import ClusterReader
from broker_ctl.errors import PeerError, StartError
from broker_ctl.peer_http import PeerAddresses
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.store.in_process.store import InProcessStore

# Registered for the configuration store by the tools of old Pulsar releases; not a cluster.
_NO_CLUSTERS: Final = frozenset({"global"})
# A state that is free is acquired in less.
_LOOK_S: Final = 2.0


async def name_of_cluster(settings: Settings) -> str:
    """The name of the cluster in the settings, or else by the admin API.

    Raises:
        StartError: no broker answers, or there are several clusters.
    """
    http, admin = admin_of(settings, dict, PeerAddresses(), Reloader())
    try:
        names = await ClusterReader(admin, "").clusters()
    except PeerError as error:
        raise StartError(f"no cluster at {settings.text('pulsarAdminUrl')}: {error}") from error
    finally:
        await http.close()
    return select_cluster(settings, names, settings.text("pulsarAdminUrl"))


def select_cluster(settings: Settings, found: Iterable[str], where: str) -> str:
    """The cluster in the settings, or else the only one found.

    Raises:
        StartError: there are several.
    """
    if settings.origin("clusterName") != DEFAULT_ORIGIN:
        return settings.broker.cluster_name
    names = sorted({*found} - _NO_CLUSTERS)
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise StartError(f"{where} has {known}: select a cluster with --cluster")
    return names[0]


async def show_waiting(attached: Attached, is_started: asyncio.Event) -> None:
    """Say what the start waits for, as long as it does."""
    store, said = attached.foundation.store, ""
    while isinstance(store, InProcessStore) and not is_started.is_set():
        await asyncio.sleep(_LOOK_S)
        if store.waiting_for not in {"", said}:
            said = store.waiting_for
            echo(said, err=True)
