"""The benchmark of the partition controller rehearses: its shape, and what it stands on."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.failover.layout import PARTITIONS_OF_A_TOPIC, Layout
from tests.benchmarks.failover.serial import PARTITIONS, measure_serial
from tests.benchmarks.failover.servers import operations
from tests.support.zookeeper.ensemble import SharedEnsemble

SCRIPT = Path(__file__).parents[1] / "controller_failover.py"
LAYOUT = Layout(120, 7, (1, 2, 3, 4, 5, 6))


def test_one_broker_leads_all_and_the_others_share_the_rest_evenly() -> None:
    replicas = [LAYOUT.replicas(number) for number in range(LAYOUT.partitions)]
    assert {first for first, _, _ in replicas} == {7}
    assert all(len(set(row)) == 3 for row in replicas)
    # As many to lead for each when the first is gone, and as many to follow.
    assert Counter(second for _, second, _ in replicas) == dict.fromkeys(LAYOUT.others, 20)
    assert Counter(third for _, _, third in replicas) == dict.fromkeys(LAYOUT.others, 20)


def test_assignments_and_states_are_of_the_same_partitions() -> None:
    assigned = {
        (topic, number): row.replicas
        for topic, assignment in LAYOUT.assignments()
        for number, row in assignment.partitions.items()
    }
    states = dict(LAYOUT.states())
    assert assigned.keys() == states.keys()
    assert len(states) == 120
    assert all(sorted(assigned[one]) == list(state.isr) for one, state in states.items())
    sizes = [len(assignment.partitions) for _, assignment in LAYOUT.assignments()]
    assert sizes == [PARTITIONS_OF_A_TOPIC, PARTITIONS_OF_A_TOPIC, 20]


async def test_the_seeds_procedure_takes_four_operations_a_partition(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    store = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot))
    await store.start()
    try:
        await store.wait_connected()
        ports = [server.client_port for server in zookeeper.servers]
        assert await measure_serial(store) > 0
        counted = await operations(ports, chroot.strip("/"))
    finally:
        await store.close()
    # One read, one write, two queue nodes; the two nodes of each partition were laid before.
    assert (2 + 4) * PARTITIONS <= counted <= (2 + 4) * PARTITIONS + 60


@pytest.mark.slow
def test_a_rehearsal_has_the_figures_of_its_part() -> None:
    done = subprocess.run(
        [
            *(sys.executable, SCRIPT, "--json", "--only", "controller_failover"),
            *("--partitions", "30,60", "--runs", "1", "--heap", "128m"),
        ],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert set(found) == {
        "controller_failover",
        "load_reads_per_s",
        "watches",
        "peak_rss_mb",
        "machine",
    }
    assert found["controller_failover"].keys() == {"30", "60"}
    assert all(0 < seconds < 30 for seconds in found["controller_failover"].values())
    assert found["load_reads_per_s"] > 0
    # None for a partition: as many with ten times as many.
    assert 7 <= found["watches"] < 200
    assert 10 < found["peak_rss_mb"] < 500


@pytest.mark.slow
def test_a_rehearsal_of_the_memory_has_its_figures() -> None:
    done = subprocess.run(
        [
            *(sys.executable, SCRIPT, "--json", "--only", "memory"),
            *("--partitions", "60", "--heap", "128m"),
        ],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)["memory"]["60"]
    assert 10 < found["process_mb"] < 500
    assert found["takeover_peak_kb"] >= found["held_kb"]
