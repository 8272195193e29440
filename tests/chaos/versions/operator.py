"""What an operator writes through one daemon, and every daemon must read."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.codec import decode
from broker_ctl.errors import HttpError, StoreError
from broker_ctl.store import paths
from tests.chaos.cluster.cluster import Broker, Cluster
from tests.chaos.cluster.topics import NAMESPACE
from tests.support.time.waiting import eventually

_KNOWN_S: Final = 20.0
_DRAINED_S: Final = 60.0
_REQUEST_S: Final = 10.0
_PAUSE: Final = "/control/v1/pause"
_DRAINS: Final = "/control/v1/drains"
_OVERRIDES: Final = "/admin/v2/brokers/configuration"
_OVERRIDDEN: Final = "loadBalancerSheddingGracePeriodMinutes"
_WHOLE: Final = "0x00000000_0xffffffff"
# As Pulsar halves a range whose end is the last hash.
_LOWER_HALF: Final = "0x00000000_0x7fffffff"
_WHY: Final = {"reason": "two releases side by side"}
_ISOLATION: Final = {
    "namespaces": [f"{NAMESPACE.tenant}/nobody-.*"],
    # No broker of ours: those of a policy are kept from all other namespaces.
    "primary": ["10.0.0.1.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    },
}

IsRight = Callable[[Any], bool]


async def operate(cluster: Cluster, draw: random.Random) -> None:
    """Write each kind of record through some daemon, and wait until all have read it."""
    through = draw.sample(cluster.brokers, len(cluster.brokers))
    await _pause(cluster, through[0], through[-1])
    await _override(cluster, through[0], str(draw.randint(1, 1000)))
    await _isolate(cluster, through[0], f"policy-{draw.randint(1, 1000)}")
    await _split_and_merge(cluster, through, f"ring-{draw.getrandbits(48):x}")
    await _drain(cluster, through[0], through[-1])


async def _pause(cluster: Cluster, begins: Broker, ends: Broker) -> None:
    await _ask(cluster, begins, "PUT", _PAUSE, _WHY)
    await _all_answer(cluster, _PAUSE, lambda row: row["paused"] is True)
    await _ask(cluster, ends, "DELETE", _PAUSE)
    await _all_answer(cluster, _PAUSE, lambda row: row["paused"] is False)


async def _override(cluster: Cluster, broker: Broker, value: str) -> None:
    await _ask(cluster, broker, "POST", f"{_OVERRIDES}/{_OVERRIDDEN}/{value}")
    await _all_answer(
        cluster, f"{_OVERRIDES}/runtime", lambda row: float(row[_OVERRIDDEN]) == float(value)
    )
    await _ask(cluster, broker, "DELETE", f"{_OVERRIDES}/{_OVERRIDDEN}")


async def _isolate(cluster: Cluster, broker: Broker, name: str) -> None:
    root = f"/admin/v2/clusters/{SETTINGS['clusterName']}/namespaceIsolationPolicies"
    await _ask(cluster, broker, "POST", f"{root}/{name}", _ISOLATION)
    await _all_answer(cluster, root, lambda row: name in row)
    await _ask(cluster, broker, "DELETE", f"{root}/{name}")
    await _all_answer(cluster, root, lambda row: name not in row)


async def _split_and_merge(cluster: Cluster, through: list[Broker], name: str) -> None:
    """In a namespace of its own, which stays: an earlier release may not delete namespaces well."""
    ring = f"/admin/v2/namespaces/{NAMESPACE.tenant}/{name}"
    first, last = through[0], through[-1]
    await _ask(cluster, first, "PUT", ring, {"bundles": {"numBundles": 1}})
    await _all_answer(cluster, f"{ring}/bundles", lambda row: row["numBundles"] == 1)
    topic = f"/lookup/v2/topic/persistent/{NAMESPACE.tenant}/{name}/topic"
    await _ask(cluster, last, "GET", topic)
    # An attempt that was not answered may have been carried out: the ring says so.
    for act, bundles in ((f"{_WHOLE}/split", 2), (f"{_LOWER_HALF}/merge", 1)):

        async def is_done(act: str = act, bundles: int = bundles) -> bool:
            await _attempt(cluster, first, "PUT", f"{ring}/{act}")
            return await _answers(cluster, last, f"{ring}/bundles", partial(_has_bundles, bundles))

        await eventually(is_done, _KNOWN_S, f"{act} of {name}", poll_s=0.3)
        await _all_answer(cluster, f"{ring}/bundles", partial(_has_bundles, bundles))


def _has_bundles(number: int, row: Any) -> bool:
    return bool(row["numBundles"] == number)


async def _drain(cluster: Cluster, through: Broker, drained: Broker) -> None:
    """Until it owns nothing; an operator's move may bring it a bundle before the drain is known."""
    await _ask(cluster, through, "PUT", f"{_DRAINS}/{drained.id}?force=true", _WHY)

    async def is_empty() -> bool:
        try:
            names = await cluster.observer.children(paths.ownership_of(NAMESPACE))
            nodes = [
                await cluster.observer.get(f"{paths.ownership_of(NAMESPACE)}/{name}")
                for name in names
            ]
        except StoreError:
            return False
        return not any(node and drained.id.encode() in node.data for node in nodes)

    await eventually(is_empty, _DRAINED_S, f"{drained.id} is empty", poll_s=0.2)
    await _ask(cluster, through, "DELETE", f"{_DRAINS}/{drained.id}")


async def _ask(
    cluster: Cluster, broker: Broker, method: str, path: str, body: Mapping[str, Any] | None = None
) -> None:
    """Until it succeeds: bundles move meanwhile, and a term may end."""
    said = "nothing"

    async def is_done() -> bool:
        nonlocal said
        status, said = await _attempt(cluster, broker, method, path, body)
        return 200 <= status < 300

    try:
        await eventually(is_done, _KNOWN_S, f"{method} {path} at {broker.id}", poll_s=0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}: {said}") from error


async def _attempt(
    cluster: Cluster, broker: Broker, method: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, str]:
    """The status, 0 without an answer, and what was said."""
    try:
        reply = await cluster.http.request(
            method, broker.daemon.url + path, json=body, allow_redirects=True, timeout_s=_REQUEST_S
        )
    except HttpError as error:
        return 0, str(error)
    return reply.status, f"{reply.status} {reply.body[:300].decode(errors='replace')}"


async def _all_answer(cluster: Cluster, path: str, is_right: IsRight) -> None:
    """Every daemon, of whatever release, has read what was written."""
    for broker in cluster.brokers:

        async def has_read(broker: Broker = broker) -> bool:
            return await _answers(cluster, broker, path, is_right)

        await eventually(has_read, _KNOWN_S, f"{broker.id} reads {path}", poll_s=0.1)


async def _answers(cluster: Cluster, broker: Broker, path: str, is_right: IsRight) -> bool:
    try:
        reply = await cluster.http.request("GET", broker.daemon.url + path, allow_redirects=True)
    except HttpError:
        return False
    return reply.status == 200 and is_right(decode(reply.body))
