"""Tenants, without which there is no namespace."""

from broker_ctl.errors import NodeExists
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.policies import TenantInfo


async def make_tenants(store: MetadataStore, cluster: str, *names: str) -> None:
    """Write tenants into a configuration store that may use one cluster; they may be there."""
    info = TenantInfo(allowed_clusters=(cluster,)).encode()
    for name in names:
        try:
            await store.create(paths.tenant(name), info, make_parents=True)
        except NodeExists:
            continue


async def make_tenant(http: HttpClient, url: str, name: str) -> None:
    """Ask a daemon for one that may use all clusters; it may be there."""
    clusters = (await http.request("GET", f"{url}/admin/v2/clusters")).json()
    made = await http.request(
        "PUT", f"{url}/admin/v2/tenants/{name}", json={"allowedClusters": clusters}
    )
    assert made.status in {204, 409}, made.body
