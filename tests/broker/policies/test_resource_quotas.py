"""Where resource quotas lie, and what freezes them."""

import json
import random

import pytest

from broker_ctl.broker.namespaces.policy_store import PolicyStore
from broker_ctl.broker.policies.policies import ResourceQuotas, parse_quota
from broker_ctl.core.model.load import DEFAULT_QUOTA, ResourceQuota
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.errors import CorruptRecord, PoliciesReadOnly
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths

(BUNDLE,) = Ring.even(Namespace("t", "ns"), 1).bundles
QUOTA = ResourceQuota(msg_rate_in=7.0)


class Built:
    """Quotas over two stores that are not the same."""

    def __init__(self) -> None:
        self.local = MemoryStore(MemoryEnsemble())
        self.configuration = MemoryStore(MemoryEnsemble())
        policies = PolicyStore.of(self.configuration, LoopClock(), random.Random(1))
        self.quotas = ResourceQuotas(self.local, policies)

    async def start(self) -> None:
        for store in (self.local, self.configuration):
            await store.start()
            await store.wait_connected()

    async def close(self) -> None:
        for store in (self.local, self.configuration):
            await store.close()


@in_virtual_time
async def test_quotas_lie_beside_the_load_and_the_flag_beside_the_policies() -> None:
    built = Built()
    await built.start()
    await built.quotas.set(QUOTA, BUNDLE)
    assert await built.local.get(paths.resource_quota(BUNDLE)) is not None
    assert await built.configuration.get(paths.resource_quota(BUNDLE)) is None
    await built.configuration.create(paths.POLICIES_READ_ONLY, make_parents=True)
    with pytest.raises(PoliciesReadOnly):
        await built.quotas.set(DEFAULT_QUOTA, BUNDLE)
    with pytest.raises(PoliciesReadOnly):
        await built.quotas.delete(BUNDLE)
    assert parse_quota(json.loads(await built.quotas.payload(BUNDLE))) == QUOTA
    await built.close()


@in_virtual_time
async def test_a_quota_that_cannot_be_read_is_named_and_can_be_reset() -> None:
    built = Built()
    await built.start()
    path = paths.resource_quota(BUNDLE)
    await built.local.create(path, b"corrupt", make_parents=True)
    with pytest.raises(CorruptRecord, match=path):
        await built.quotas.payload(BUNDLE)
    await built.quotas.delete(BUNDLE)
    assert parse_quota(json.loads(await built.quotas.payload(BUNDLE))) == DEFAULT_QUOTA
    await built.close()
