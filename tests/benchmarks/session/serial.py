"""The peer: as many bundles taken one by one, as a loop over them would.

In the same surroundings: the same brokers follow what is taken, and the same clients look up.
"""

import random
import time
from typing import Final

from broker_ctl.clock import SystemClock
from broker_ctl.coordination.locks import Locks
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.simulation.workload.workload import Workload
from broker_ctl.store import paths
from broker_ctl.store.interface import Check
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore

PER_NAMESPACE: Final = 250
BROKER_ID: Final = "127.0.0.1:1"


async def measure_serial(hosts: str, chroot: str, bundles: int, jute_bytes: int) -> float:
    """Seconds from the first until the last of them is renewed."""
    options = StoreOptions(hosts=hosts, chroot=chroot, max_frame_bytes=jute_bytes)
    store = ZooKeeperStore(options)
    rng = random.Random(1)
    urls = BrokerUrls(BROKER_ID, f"http://{BROKER_ID}", native_url="pulsar://127.0.0.1:6650")
    record = NamespaceEphemeralData(urls).encode()
    dataplane = SimulatedDataPlane(
        Workload.named("steady", 0), SystemClock(), broker_id=BROKER_ID, rng=rng
    )
    locks = Locks(
        store, paths.OWNERSHIP, broker_id=BROKER_ID, broker_of=lambda _: BROKER_ID, rng=rng
    )
    await store.start()
    try:
        await store.wait_connected()
        rings = [
            Ring.even(Namespace("public", f"serial{number}"), min(PER_NAMESPACE, bundles - start))
            for number, start in enumerate(range(0, bundles, PER_NAMESPACE))
        ]
        for ring in rings:
            path = paths.local_policies(ring.namespace)
            await store.create(path, LocalPolicies(ring.boundaries).encode(), make_parents=True)
            for bundle in ring.bundles:
                await dataplane.load(bundle, 1)
        await locks.start()
        began_s = time.perf_counter()
        for ring in rings:
            guard = Check(paths.local_policies(ring.namespace), 0)
            for bundle in ring.bundles:
                path = paths.ownership(bundle)
                lock = await locks.acquire(path, record, lambda _: None, [guard])
                await dataplane.renew(bundle, lock.token)
        return time.perf_counter() - began_s
    finally:
        await locks.close()
        await store.close()
