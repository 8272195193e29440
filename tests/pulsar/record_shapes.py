"""Record what a real Pulsar answers on the paths that a daemon has too, for tests/api/openapi.

    python -m tests.pulsar.record_shapes
    python -m tests.pulsar.record_shapes --version 5.0.1

Writes ``tests/pulsar/recorded/shapes-VERSION.json``: each request with the path of our document,
and the answer. Ports and times are new in each recording; no test may depend on them.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from tests.pulsar.record import RECORDED
from tests.support.pulsar.cluster import PulsarCluster, pulsar_cluster
from tests.support.pulsar.distribution import distribution
from tests.support.pulsar.files import CLUSTER

_JSON: Final = "application/json"
_DEADLINE: Final = aiohttp.ClientTimeout(total=60.0)
# An answer is kept for its shape: of long maps and texts the beginning says it.
_MOST_MEMBERS: Final = 40
_LONGEST: Final = 300
_NOT_SENT: Final = object()
_TENANT: Final = "shapes"
_HERE: Final = {"tenant": _TENANT, "namespace": "ns"}
_GONE: Final = {"tenant": _TENANT, "namespace": "nowhere"}
_RATES: Final = {"msgRateIn": 1.0, "msgRateOut": 2.0, "bandwidthIn": 3.0, "bandwidthOut": 4.0}
_QUOTA: Final = {**_RATES, "memory": 5.0, "dynamic": False}
_POLICY: Final = {
    "namespaces": [f"{_TENANT}/.*"],
    "primary": ["127.0.0.1:.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}


@dataclass(frozen=True)
class Asked:
    """One request: the path as our document has it, and what its braces and its query are."""

    method: str
    template: str
    values: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    body: Any = _NOT_SENT

    @property
    def path(self) -> str:
        """The path that is sent."""
        return self.template.format(**{name: quote(text) for name, text in self.values.items()})


def _tenants_and_clusters() -> Iterator[Asked]:
    tenants, one = "/admin/v2/tenants", "/admin/v2/tenants/{tenant}"
    info = {"adminRoles": ["admin"], "allowedClusters": [CLUSTER]}
    yield Asked("PUT", one, {"tenant": _TENANT}, body=info)
    yield Asked("PUT", one, {"tenant": _TENANT}, body=info)
    yield Asked("PUT", one, {"tenant": "a!b"}, body=info)
    yield Asked("PUT", one, {"tenant": "elsewhere"}, body={"allowedClusters": ["no-such-cluster"]})
    yield Asked("GET", tenants)
    yield Asked("GET", one, {"tenant": _TENANT})
    yield Asked("GET", one, {"tenant": "nobody"})
    yield Asked("POST", one, {"tenant": _TENANT}, body=info)
    yield Asked("POST", one, {"tenant": "nobody"}, body=info)
    yield Asked("DELETE", one, {"tenant": "nobody"})
    clusters, cluster = "/admin/v2/clusters", "/admin/v2/clusters/{cluster}"
    data = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:2"}
    other = {"cluster": "other"}
    yield Asked("PUT", cluster, other, body=data)
    yield Asked("PUT", cluster, other, body=data)
    yield Asked("POST", cluster, other, body=data)
    yield Asked("GET", clusters)
    yield Asked("GET", cluster, {"cluster": CLUSTER})
    yield Asked("GET", cluster, {"cluster": "no-such-cluster"})
    yield Asked("POST", f"{cluster}/peers", {"cluster": CLUSTER}, body=["other"])
    yield Asked("GET", f"{cluster}/peers", {"cluster": CLUSTER})
    yield Asked("POST", f"{cluster}/peers", {"cluster": CLUSTER}, body=[])
    yield Asked("GET", f"{cluster}/peers", {"cluster": "no-such-cluster"})
    yield Asked("DELETE", cluster, other)
    yield Asked("DELETE", cluster, other)


def _namespaces() -> Iterator[Asked]:
    one = "/admin/v2/namespaces/{tenant}/{namespace}"
    yield Asked("PUT", one, _HERE, body={"bundles": {"numBundles": 4}})
    yield Asked("PUT", one, _HERE, body={"bundles": {"numBundles": 4}})
    yield Asked("PUT", one, {"tenant": "nobody", "namespace": "ns"}, body={})
    yield Asked("GET", "/admin/v2/namespaces/{tenant}", {"tenant": _TENANT})
    yield Asked("GET", "/admin/v2/namespaces/{tenant}", {"tenant": "nobody"})
    for values in (_HERE, _GONE):
        for part in ("", "/bundles", "/replication", "/permissions", "/topics"):
            yield Asked("GET", one + part, values)
    yield Asked("POST", f"{one}/replication", _HERE, body=[CLUSTER])
    yield Asked("POST", f"{one}/replication", _HERE, body=["no-such-cluster"])
    bundle = {**_HERE, "bundle": "0x00000000_0x40000000"}
    yield Asked("PUT", f"{one}/{{bundle}}/unload", bundle)
    yield Asked("PUT", f"{one}/{{bundle}}/unload", {**_HERE, "bundle": "0x00000001_0x40000000"})
    yield Asked("PUT", f"{one}/{{bundle}}/unload", {**_GONE, "bundle": "0x00000000_0xffffffff"})
    yield Asked("PUT", f"{one}/{{bundle}}/split", bundle, body=[])
    yield Asked("PUT", f"{one}/{{bundle}}/split", bundle, "splitAlgorithmName=by_magic", body=[])
    yield Asked("PUT", f"{one}/unload", _HERE)
    yield Asked("PUT", f"{one}/unload", _GONE)
    group = f"{one}/antiAffinity"
    yield Asked("POST", group, _HERE, body="group")
    yield Asked("GET", group, _HERE)
    of_cluster = {"cluster": CLUSTER, "group": "group"}
    yield Asked("GET", "/admin/v2/namespaces/{cluster}/antiAffinity/{group}", of_cluster)
    yield Asked("DELETE", group, _HERE)
    yield Asked("GET", group, _HERE)
    quotas = "/admin/v2/resource-quotas"
    of_bundle = {**_HERE, "bundle": "0x40000000_0x80000000"}
    for path, values in (
        (quotas, {}),
        (f"{quotas}/{{tenant}}/{{namespace}}/{{bundle}}", of_bundle),
    ):
        yield Asked("POST", path, values, body=_QUOTA)
        yield Asked("GET", path, values)
        yield Asked("DELETE", path, values)


def _topics() -> Iterator[Asked]:
    topics = "/admin/v2/{domain}/{tenant}/{namespace}"
    of = {"domain": "persistent", **_HERE}
    partitions = f"{topics}/{{topic}}/partitions"
    yield Asked("PUT", partitions, {**of, "topic": "pt"}, body=3)
    yield Asked("PUT", partitions, {**of, "topic": "pt"}, body=3)
    yield Asked("PUT", partitions, {**of, "topic": "bad"}, body=0)
    yield Asked("GET", partitions, {**of, "topic": "pt"})
    yield Asked("GET", partitions, {**of, "topic": "missing"})
    yield Asked("POST", partitions, {**of, "topic": "pt"}, body=5)
    yield Asked("POST", partitions, {**of, "topic": "pt"}, body=2)
    lookup = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
    yield Asked("GET", lookup, {**of, "topic": "pt-partition-0"})
    yield Asked("GET", lookup, {**of, **_GONE, "topic": "x"})
    yield Asked("GET", f"{lookup}/bundle", {**of, "topic": "pt-partition-0"})
    yield Asked("GET", f"{lookup}/bundle", {**of, **_GONE, "topic": "x"})
    yield Asked("GET", f"{topics}/partitioned", of)
    yield Asked("GET", topics, of)
    yield Asked("GET", topics, {**of, **_GONE})
    yield Asked("GET", f"{topics}/{{bundle}}", {**of, "domain": "non-persistent"} | _WHOLE)
    yield Asked("PUT", f"{topics}/{{topic}}/unload", {**of, "topic": "pt-partition-0"})
    yield Asked("PUT", f"{topics}/{{topic}}/unload", {**of, "topic": "missing"})
    yield Asked("DELETE", partitions, {**of, "topic": "pt"})
    yield Asked("DELETE", partitions, {**of, "topic": "pt"})


_WHOLE: Final = {"bundle": "0x40000000_0x80000000"}


def _brokers(broker: str) -> Iterator[Asked]:
    cluster = "/admin/v2/clusters/{cluster}"
    policies, domains = f"{cluster}/namespaceIsolationPolicies", f"{cluster}/failureDomains"
    here = {"cluster": CLUSTER}
    for path in (policies, f"{policies}/brokers", domains):
        yield Asked("GET", path, here)
        yield Asked("GET", path, {"cluster": "no-such-cluster"})
    policy, domain = {**here, "policy": "p"}, {**here, "domain": "d"}
    yield Asked("POST", f"{policies}/{{policy}}", policy, body=_POLICY)
    yield Asked("GET", policies, here)
    yield Asked("GET", f"{policies}/{{policy}}", policy)
    yield Asked("GET", f"{policies}/{{policy}}", {**here, "policy": "missing"})
    yield Asked("GET", f"{policies}/brokers", here)
    yield Asked("GET", f"{policies}/brokers/{{broker}}", {**here, "broker": broker})
    yield Asked("DELETE", f"{policies}/{{policy}}", policy)
    yield Asked("POST", f"{domains}/{{domain}}", domain, body={"brokers": [broker]})
    yield Asked("GET", domains, here)
    yield Asked("GET", f"{domains}/{{domain}}", domain)
    yield Asked("GET", f"{domains}/{{domain}}", {**here, "domain": "missing"})
    yield Asked("DELETE", f"{domains}/{{domain}}", domain)
    brokers = "/admin/v2/brokers"
    for part in ("", "/leaderBroker", "/version", "/internal-configuration", "/health", "/ready"):
        yield Asked("GET", brokers + part)
    yield Asked("GET", f"{brokers}/backlog-quota-check")
    yield Asked("GET", f"{brokers}/{{cluster}}", here)
    owned = f"{brokers}/{{cluster}}/{{broker}}/ownedNamespaces"
    yield Asked("GET", owned, {**here, "broker": broker})
    configuration = f"{brokers}/configuration"
    change = {"name": "loadBalancerSheddingEnabled", "value": "false"}
    yield Asked("POST", f"{configuration}/{{name}}/{{value}}", change)
    yield Asked("POST", f"{configuration}/{{name}}/{{value}}", {"name": "nothing", "value": "1"})
    for part in ("", "/values", "/runtime"):
        yield Asked("GET", configuration + part)
    yield Asked("DELETE", f"{configuration}/{{name}}", {"name": change["name"]})
    for part in ("load-report", "topics"):
        yield Asked("GET", f"/admin/v2/broker-stats/{part}")


def requests(broker: str) -> Sequence[Asked]:
    """All of them, in the order in which they are sent to this broker."""
    delete = Asked("DELETE", "/admin/v2/namespaces/{tenant}/{namespace}", _HERE)
    parts = (_tenants_and_clusters(), _namespaces(), _topics(), _brokers(broker))
    of_tenant = Asked("DELETE", "/admin/v2/tenants/{tenant}", {"tenant": _TENANT})
    return [*(each for part in parts for each in part), delete, delete, of_tenant]


def short(value: Any) -> Any:
    """A value with the beginning of what is long in it."""
    match value:
        case dict():
            kept = sorted(value.items())[:_MOST_MEMBERS]
            return {name: short(member) for name, member in kept}
        case list():
            return [short(member) for member in value[:_MOST_MEMBERS]]
        case str():
            return value[:_LONGEST]
        case _:
            return value


async def record(cluster: PulsarCluster) -> list[dict[str, Any]]:
    """What the first broker answers to each request."""
    broker = cluster.running[0]
    async with aiohttp.ClientSession(timeout=_DEADLINE) as http:
        return [await _ask(http, broker.url, asked) for asked in requests(broker.id)]


async def _ask(http: aiohttp.ClientSession, base: str, asked: Asked) -> dict[str, Any]:
    url = URL(f"{base}{asked.path}" + (f"?{asked.query}" if asked.query else ""), encoded=True)
    row: dict[str, Any] = {"method": asked.method, "template": asked.template, "path": asked.path}
    # What has no body says JSON, too: any other type is refused.
    options: dict[str, Any] = {"headers": {"Content-Type": _JSON}}
    if asked.body is not _NOT_SENT:
        row["body"] = asked.body
        options["data"] = json.dumps(asked.body)
    async with http.request(asked.method, url, allow_redirects=False, **options) as reply:
        text = await reply.text()
        row |= {"status": reply.status, "type": reply.content_type if text else ""}
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    return row | ({"answer": short(answer)} if text else {})


def main() -> None:
    """Start a broker, record it, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.pulsar.record_shapes")
    parser.add_argument("--version", default="", metavar="RELEASE")
    pulsar = distribution(parser.parse_args().version)
    with (
        tempfile.TemporaryDirectory() as scratch,
        pulsar_cluster(Path(scratch, "cluster"), pulsar, brokers=1) as cluster,
    ):
        rows = asyncio.run(record(cluster))
    path = RECORDED / f"shapes-{pulsar.version}.json"
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
