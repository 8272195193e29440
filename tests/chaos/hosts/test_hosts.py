"""Hosts of a run: what finds nothing false, what is found, and that nothing of them stays."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from tests.chaos.hosts.faults import HOST_FAULTS
from tests.chaos.hosts.network import missing
from tests.chaos.test_chaos import HANG_S, run_chaos, start
from tests.support.rules.processes import is_gone
from tests.support.time.waiting import eventually


@pytest.fixture(autouse=True)
def _hosts() -> None:
    if (why := missing()) is not None:
        pytest.skip(why)


def interfaces() -> set[str]:
    return {one.name for one in Path("/sys/class/net").iterdir()}


def namespaces() -> set[str]:
    names = Path("/run/netns")
    return {one.name for one in names.iterdir()} if names.is_dir() else set()


@pytest.mark.slow
async def test_a_short_run_on_hosts_finds_nothing_false() -> None:
    kinds = "servers_one_way,daemon_deaf,groups,server_vanished"
    given = ("--hosts", "--seconds", "30", "--guard", "lease", "--seed", "7", "--faults", kinds)
    code, found, said = await run_chaos(*given)
    assert found["violations"] == [], said
    assert code == 0
    assert found["faults"].keys() <= HOST_FAULTS.keys()
    assert sum(found["faults"].values()) >= 3
    assert found["acts"] > 0
    assert found["committed_records"] > 0
    assert found["lookups"]["statuses"]["200"] > 0


@pytest.mark.slow
async def test_brokers_that_nothing_keeps_apart_are_found_where_packets_are_dropped() -> None:
    given = ("--hosts", "--seconds", "30", "--guard", "none", "--faults", "daemon_apart")
    code, found, said = await run_chaos(*given)
    assert code == 1, said
    assert any("I1" in one for one in found["violations"]), said


@pytest.mark.slow
async def test_an_early_end_leaves_neither_a_process_nor_a_host() -> None:
    before = interfaces(), namespaces()
    process = await start("--hosts", "--seconds", "60", "--guard", "lease")
    assert process.stderr is not None
    async with asyncio.timeout(HANG_S):
        # Its first fault is shown once all daemons serve.
        line = ""
        while not any(kind in line for kind in HOST_FAULTS):
            assert process.returncode is None
            line = (await process.stderr.readline()).decode()
    assert (interfaces(), namespaces()) == before
    children = [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
    assert len(children) >= 9  # servers, daemons, broker processes
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(HANG_S):
        await process.communicate()
    assert process.returncode == 130
    await eventually(lambda: all(map(is_gone, children)), what="all to be gone")
    assert (interfaces(), namespaces()) == before


async def test_a_kind_that_only_proxies_have_is_none_of_hosts() -> None:
    process = await start("--hosts", "--faults", "links_cut")
    _, said = await process.communicate()
    assert process.returncode == 2
    assert "links_cut" in said.decode()
