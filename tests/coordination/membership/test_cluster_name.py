"""One chroot, one cluster."""

import pytest

from broker_ctl.coordination.membership.cluster import require_cluster_name
from broker_ctl.errors import CorruptRecord, StartError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from tests.support.clusters.sessions import parties
from tests.support.daemon.whole_daemon import whole_daemon


@in_virtual_time
async def test_a_cluster_name_other_than_that_of_the_first_broker_is_refused_with_both() -> None:
    async with parties(2) as (one, two):
        await require_cluster_name(one.store, "prod-east")
        await require_cluster_name(two.store, "prod-east")
        with pytest.raises(StartError) as met:
            await require_cluster_name(two.store, "prod-west")
        assert "clusterName=prod-west" in str(met.value)
        assert "the cluster prod-east" in str(met.value)


@in_virtual_time
async def test_a_name_that_cannot_be_read_is_not_written_over() -> None:
    async with parties() as (one,):
        await one.store.create(paths.CLUSTER_NAME, b"{", make_parents=True)
        with pytest.raises(CorruptRecord):
            await require_cluster_name(one.store, "c")


@in_virtual_time
async def test_a_daemon_of_another_cluster_does_not_start_and_registers_nowhere() -> None:
    async with whole_daemon() as first:
        await first.wait_ready()
        with pytest.raises(ExceptionGroup) as met:
            async with whole_daemon(
                "clusterName=d", "advertisedAddress=h2", ensemble=first.ensemble
            ) as second:
                await second.wait_ready()
        assert "the cluster c" in repr(met.value)
        assert first.ensemble.tree.children(paths.REGISTRATIONS) == ["h1:8080"]
