"""One broker owns everything, and the servers end its session."""

import asyncio
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.store import paths
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.benchmarks.lines.log_lines import (
    SESSION_OPENED,
    SESSION_REACQUIRED,
    matches,
)
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.session.raw import measure_raw, prepare_raw
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.running_daemons import leader_of
from tests.support.time.waiting import eventually
from tests.support.zookeeper.session_faults import expire_session, password_of

PER_NAMESPACE: Final = 250
CLIENTS: Final = 3
LOOKUPS_S: Final = 25.0
_AT_ONCE: Final = 32
_OUT_OF_THE_WAY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Reowned:
    """What the log says: seconds from the new session, and acquisitions at once."""

    took_s: float
    peak_in_flight: int


@dataclass(frozen=True, slots=True)
class Scene:
    """What one of the brokers owns, and who looks it up throughout."""

    victim: DaemonProcess
    rings: Sequence[Ring]
    clients: "Clients"

    @property
    def bundles(self) -> list[Bundle]:
        return [bundle for ring in self.rings for bundle in ring.bundles]


@asynccontextmanager
async def scene(
    http: HttpClient, daemons: Sequence[DaemonProcess], bundles: int
) -> AsyncIterator[Scene]:
    """All bundles at the first broker, and clients that look them up."""
    rings = await _namespaces(http, daemons[0], bundles)
    topics = [topic for ring in rings for topic in _a_topic_in_each(ring)]
    clients = Clients(http, daemons, topics)
    built = Scene(daemons[0], rings, clients)
    await _take_all(http, daemons, built.victim, built.bundles)
    report_progress(f"{built.victim.broker_id} owns {len(built.bundles)} bundles")
    async with TaskScope("clients") as scope:
        for number in range(CLIENTS):
            scope.start(clients.look_up_for_ever(number), f"client {number}")
        await eventually(lambda: clients.answers[200] > len(topics) / 10, deadline_s=120.0)
        yield built


@dataclass(frozen=True, slots=True)
class Expiries:
    """How often the session of the broker is ended, and where.

    Attributes:
        server: ``host:port`` of one of the servers; the raw transactions are sent there too.
        chroot: of the brokers.
        times: number of expiries; each follows its raw peer.
    """

    server: str
    chroot: str
    times: int


async def measure_expiries(
    wanted: Expiries, *, store: ZooKeeperStore, built: Scene
) -> dict[str, Any]:
    """Medians of all expiries; ``ownership_changes`` and ``peak_in_flight`` are the largest."""
    bundles = len(built.bundles)
    await prepare_raw(store, bundles)
    raw_s: list[float] = []
    reowned: list[Reowned] = []
    changes: list[int] = []
    for _ in range(wanted.times):
        raw_s.append(await measure_raw(wanted.server, wanted.chroot, bundles))
        # The brokers are still notified of what has ended with it.
        await asyncio.sleep(_OUT_OF_THE_WAY_S)
        one, changed = await _expire(wanted.server, store=store, built=built)
        reowned.append(one)
        changes.append(changed)
        report_progress(f"re-owned in {one.took_s:.3f} s; raw {raw_s[-1]:.3f} s")
    ratios = [one.took_s / peer_s for one, peer_s in zip(reowned, raw_s, strict=True)]
    return {
        "bundles": bundles,
        "reowned_s": round(statistics.median(one.took_s for one in reowned), 3),
        "raw_transactions_s": round(statistics.median(raw_s), 3),
        "reowned_to_raw_ratio": round(statistics.median(ratios), 2),
        "ownership_changes": max(changes),
        "peak_in_flight": max(one.peak_in_flight for one in reowned),
    }


async def _expire(server: str, *, store: ZooKeeperStore, built: Scene) -> tuple[Reowned, int]:
    """One expiry, and the bundles that another broker has owned since."""
    wanted, victim = built.bundles, built.victim
    before = dict(built.clients.answers)
    changes = -await _changes(store, built.rings)
    owner = await store.get(paths.ownership(wanted[0]))
    assert owner is not None
    session_id = owner.stat.ephemeral_owner
    expired_s = SystemClock().wall_ms() / 1000
    await expire_session(server, session_id, password_of(session_id))
    # The log has the times. Reading it is much work, which should not be done meanwhile.
    await asyncio.sleep(_OUT_OF_THE_WAY_S)
    reowned = await eventually(
        lambda: _reowned(victim, len(wanted), expired_s), deadline_s=60.0, poll_s=1.0
    )
    await asyncio.sleep(3.0)  # whatever others would take when the grace is over
    during = Counter(built.clients.answers)
    during.subtract(before)
    report_progress(f"lookups answered meanwhile: {dict(during)}")
    held = await store.get_many([paths.ownership(bundle) for bundle in wanted])
    strangers = sum(
        node is None
        or node.stat.ephemeral_owner == session_id
        or NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id != victim.broker_id
        for node in held
    )
    # Each node went once and came once: whatever else happened was a change of owner and back.
    changes += await _changes(store, built.rings) - 2 * len(wanted)
    return reowned, max(strangers, changes)


async def _changes(store: ZooKeeperStore, rings: Sequence[Ring]) -> int:
    """How often an owner node came or went, counted by the servers."""
    parents = await store.get_many([paths.ownership_of(ring.namespace) for ring in rings])
    return sum(0 if node is None else node.stat.cversion for node in parents)


async def _namespaces(http: HttpClient, daemon: DaemonProcess, bundles: int) -> list[Ring]:
    rings = []
    await make_tenant(http, daemon.url, "public")
    for number, start in enumerate(range(0, bundles, PER_NAMESPACE)):
        size = min(PER_NAMESPACE, bundles - start)
        namespace = Namespace("public", f"n{number}")
        reply = await http.request(
            "PUT",
            f"{daemon.url}/admin/v2/namespaces/{namespace}",
            json={"bundles": {"numBundles": size}},
        )
        assert reply.status == 204, reply.body
        rings.append(Ring.even(namespace, size))
    return rings


def _a_topic_in_each(ring: Ring) -> list[Topic]:
    """A topic in each bundle, found by trying names."""
    found: dict[Bundle, Topic] = {}
    for number in count():
        topic = Topic("persistent", ring.namespace, f"t{number}")
        found.setdefault(ring.bundle_of(topic), topic)
        if len(found) == len(ring.bundles):
            return list(found.values())
    raise AssertionError


async def _take_all(
    http: HttpClient,
    daemons: Sequence[DaemonProcess],
    victim: DaemonProcess,
    wanted: Sequence[Bundle],
) -> None:
    """The leader's order to take a bundle, given in its name."""

    async def led() -> tuple[DaemonProcess, int] | None:
        return await leader_of(http, daemons)

    _, epoch = await eventually(led, what="a leader")
    waiting = iter(wanted)

    async def take() -> None:
        for bundle in waiting:
            reply = await http.request(
                "POST",
                f"{victim.url}/control/v1/acquire",
                json={"epoch": epoch, "bundle": str(bundle)},
            )
            assert reply.status == 200, reply.body

    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(take(), name=f"take {number}")


class Clients:
    """Look one bundle after another up, at one broker after another; ``answers`` by status."""

    def __init__(
        self, http: HttpClient, daemons: Sequence[DaemonProcess], topics: Sequence[Topic]
    ) -> None:
        self._http = http
        self._daemons = daemons
        self._topics = topics
        self.answers: Counter[int] = Counter()

    async def look_up_for_ever(self, number: int) -> None:
        """Each client begins at another topic, and sends `LOOKUPS_S` requests a second."""
        loop = asyncio.get_running_loop()
        due_s, at = loop.time(), number * len(self._topics) // CLIENTS
        while True:
            topic = self._topics[at % len(self._topics)]
            daemon = self._daemons[at % len(self._daemons)]
            path = f"{topic.domain}/{topic.namespace}/{topic.local}"
            try:
                reply = await self._http.request("GET", f"{daemon.url}/lookup/v2/topic/{path}")
                self.answers[reply.status] += 1
            except HttpError:
                self.answers[0] += 1
            at, due_s = at + 1, due_s + 1 / LOOKUPS_S
            await asyncio.sleep(max(0.0, due_s - loop.time()))


def _reowned(daemon: DaemonProcess, bundles: int, since_s: float) -> Reowned | None:
    """By the log of the daemon, whose times are those of the events themselves."""
    opened_s = next((at_s for at_s, _ in matches(daemon, SESSION_OPENED, since_s)), None)
    if opened_s is None:
        return None
    for at_s, found in matches(daemon, SESSION_REACQUIRED, opened_s):
        assert int(found[2]) == bundles, found.string
        return Reowned(at_s - opened_s, int(found[3]))
    return None
