"""Followers with slow disks: what was proposed is committed when its connection is long gone.

A server takes a commit for that of the oldest request of its session with the same number (docs:
zookeeper-xids). With numbers of its own on each connection, the `sync` that goes before the look at
a lost write is answered by the commit of an earlier one: the write is not there yet, and is sent
again.
"""

import asyncio
from typing import Any

from broker_ctl.lab.memory_store.transport import MemoryRequest
from tests.deterministic.judges.answered import wrong_answers
from tests.deterministic.scenarios.replicated_scene import Scene
from tests.deterministic.scenarios.serving import serve_all
from tests.deterministic.world.daemon_process import DaemonProcess

_PATIENCE_S = 5.0
_LOOK_S = 0.001
_ASKED_S = 0.05
_ANSWERED_S = 0.1


def _asked(proposal: Any) -> MemoryRequest | None:
    found = [one for one in getattr(proposal.commit, "args", ()) if isinstance(one, MemoryRequest)]
    return found[0] if found else None


def _proposed(scene: Scene, path: str) -> Any:
    """The proposal of a write, if it waits."""
    for proposal in scene.cluster.ensemble.proposals._proposed:
        asked = _asked(proposal)
        if asked is not None and [op.path for op in asked.operations] == [path]:
            return proposal
    return None


async def _lose(scene: Scene, daemon: DaemonProcess, path: str) -> "asyncio.Task[Any]":
    """A create that is proposed when its connection ends; returns once that is so."""
    store, cluster = daemon.store, scene.cluster
    assert store is not None
    session = cluster.ensemble._sessions[store.session_id]
    create = daemon.loop.create_task(store.create(path), name=path)
    assert await cluster.until(lambda: _proposed(scene, path) is not None, _PATIENCE_S, _LOOK_S)
    former = session.client
    cluster.ensemble.drop(store.session_id, "the server is busy")
    assert await cluster.until(
        lambda: store.is_connected and session.client not in {None, former}, _PATIENCE_S, _LOOK_S
    )
    await asyncio.sleep(_ASKED_S)
    return create


def test_a_lost_write_is_looked_for_behind_its_own_commit() -> None:
    async def story(scene: Scene) -> None:
        daemon, cluster = await serve_all(scene), scene.cluster
        proposals = cluster.ensemble.proposals
        proposals.hold()
        first = await _lose(scene, daemon, "/first")
        second = await _lose(scene, daemon, "/second")
        last = _proposed(scene, "/second")
        assert last is not None
        while proposals._proposed[0] is not last:
            proposals.release_one()
        # A client that believes that all was committed asks again.
        await asyncio.sleep(_ANSWERED_S)
        proposals.release()
        assert await cluster.until(lambda: first.done() and second.done(), _PATIENCE_S)
        assert list(wrong_answers(cluster)) == []
        assert [first.exception(), second.exception()] == [None, None]

    Scene().play(story)
