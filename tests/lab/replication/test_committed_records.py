"""In any order of events each acknowledged record is in every replica in sync.

Three broker processes and a controller, of which only the network is the test's: frames,
instructions and answers about the ISR arrive late, or never, and processes die between any two
steps. The controller elects cleanly, as the real one does.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from broker_ctl import codec
from broker_ctl.core.partitions.values import NO_LEADER, LeaderAndIsr
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook.replica_wire import IsrAnswer, IsrProposal
from broker_ctl.errors import DataPlaneError
from broker_ctl.lab.replication.fetchers import Feed, Fetchers
from broker_ctl.lab.replication.leaderships import Leaderships
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.replication.plane import ReplicaTable
from broker_ctl.lab.replication.replica import Replica
from broker_ctl.lab.replication.server import ReplicaServer
from broker_ctl.lab.replication.storage import MemoryStorage
from broker_ctl.lab.replication.tcp import TcpNetwork
from broker_ctl.lab.time import ManualClock
from tests.support.replicas.replica_planes import LAG_S, ORDERS, instruction

BROKERS = (1, 2, 3)
STEPS = 150
SEEDS = 200


class Process:
    """One life of a broker process, without tasks: the test moves every frame."""

    def __init__(self, number: int, storage: MemoryStorage, clock: ManualClock) -> None:
        self.number = number
        self.table = ReplicaTable(storage)
        held = self.table.replicas
        self.leaders = Leaderships(
            number,
            held,
            storage,
            clock=clock,
            authority=lambda: Authority(1, float("inf")),
        )
        self.fetchers = Fetchers(
            number,
            held,
            storage,
            TcpNetwork(),
            self.leaders.fail,
            clock=clock,
            rng=random.Random(number),
        )
        self.server = ReplicaServer(held, self.leaders, clock)
        self.table.load()

    @property
    def replica(self) -> Replica | None:
        return self.table.replicas.get(ORDERS)

    def handle(self, state: LeaderAndIsr, min_isr: int) -> None:
        new = instruction(state, replicas=BROKERS, min_isr=min_isr)
        become = self.table.lead if state.leader == self.number else self.table.follow
        become([new], self.leaders, self.fetchers)


class Connection:
    """From a follower to its leader, with what is on its way."""

    def __init__(self, follower: Process, leader: Process) -> None:
        self.follower = follower
        self.leader = leader
        self.feed: Feed = leader.server.open_feed(follower.number)
        self.to_leader: deque[bytes] = deque()
        self.to_follower: deque[bytes] = deque()
        follower.fetchers._followed[leader.number].mark_all()

    def close(self) -> None:
        self.leader.leaders.feeds.close(self.feed)


class Sent(NamedTuple):
    """A record that a producer waits for."""

    process: Process
    leader_epoch: int
    offset: int
    record: LogRecord


class Cluster:
    """Three processes, their disks, the store, and everything that is under way."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disks = {number: MemoryStorage() for number in BROKERS}
        self.alive: dict[int, Process] = {}
        self.gone: set[int] = set()  # died, or bounced, since the controller looked
        self.instructions: dict[int, deque[LeaderAndIsr]] = {}
        self.connections: dict[int, Connection] = {}
        self.in_flight: deque[tuple[Process, IsrProposal]] = deque()
        self.answers: deque[tuple[Process, IsrAnswer]] = deque()
        self.waiting: list[Sent] = []
        self.committed: dict[int, LogRecord] = {}
        self.produced = 0
        self.min_isr = 1
        self.history: list[LeaderAndIsr] = []
        self.born: dict[int, int] = {}
        for number in BROKERS:
            self.begin(number)
        self.store = LeaderAndIsr(1, 0, BROKERS, 1, version=0)
        self.publish()
        self.catch_up(BROKERS)

    def begin(self, number: int) -> None:
        self.alive[number] = Process(number, self.disks[number], self.clock)
        self.born[number] = len(self.history)
        self.instructions[number] = deque()

    def publish(self) -> None:
        self.history.append(self.store)
        for queue in self.instructions.values():
            queue.append(self.store)

    def write(self, leader: int, isr: Sequence[int]) -> None:
        _, epoch, _, _, _, version = self.store
        self.store = LeaderAndIsr(leader, epoch + 1, tuple(sorted(isr)), 1, version=version + 1)
        self.publish()

    # Clients.

    def produce(self, number: int, count: int) -> None:
        process = self.alive.get(number)
        if process is None:
            return
        values = [b"%d" % (self.produced + index) for index in range(count)]
        self.produced += count
        try:
            offset, epoch = process.leaders.produce(ORDERS, -1, values, is_for_all=True)
        except DataPlaneError:
            return
        for index, value in enumerate(values):
            self.waiting.append(Sent(process, epoch, offset + index, LogRecord(epoch, value)))

    def time_passes(self) -> None:
        self.clock.time_s += LAG_S + 1

    # The network.

    def name(self, number: int) -> None:
        process = self.alive.get(number)
        leader = None if process is None else process.fetchers._leader_of.get(ORDERS)
        if process is None or leader is None or leader not in self.alive:
            return
        connection = self.connections.get(number)
        if connection is None or connection.leader is not self.alive[leader]:
            self.hang_up(number)
            connection = self.connections[number] = Connection(process, self.alive[leader])
        frame = process.fetchers.naming(*process.fetchers._followed[leader].take())
        connection.to_leader.append(codec.encode(frame))

    def serve(self, number: int, times: int) -> None:
        connection = self.connections.get(number)
        for _ in range(times if connection else 0):
            assert connection is not None
            if connection.to_leader:
                message = codec.decode_object(connection.to_leader.popleft())
                connection.leader.server.named(connection.feed, message)
            if frame := connection.leader.leaders.frame(connection.feed):
                connection.to_follower.append(codec.encode(frame))

    def receive(self, number: int) -> None:
        connection = self.connections.get(number)
        if connection is None or not connection.to_follower:
            return
        frame: Mapping[str, Any] = codec.decode_object(connection.to_follower.popleft())
        fetchers, leader = connection.follower.fetchers, connection.leader.number
        changed = [fetchers.cut(leader, row) for row in frame["cuts"]]
        changed += [fetchers.take(leader, row) for row in frame["data"]]
        for partition in filter(None, changed):
            fetchers._followed[leader].mark(partition)

    def replicate(self, number: int) -> None:
        """Fetch a few times: most runs shall get far."""
        for _ in range(3):
            self.name(number)
            self.serve(number, 2)
            self.receive(number)
            self.receive(number)

    def catch_up(self, numbers: Iterable[int]) -> None:
        """These handle all their instructions, and fetch all that there is: runs shall get far."""
        for number in numbers:
            while number in self.alive and self.instructions[number]:
                self.instruct(number)
        for number in numbers:
            self.replicate(number)

    def produce_and_fetch(self, number: int, count: int, followers: Iterable[int]) -> None:
        self.produce(number, count)
        for follower in followers:
            self.replicate(follower)

    def change_isr(self, number: int) -> None:
        """A proposal that comes true, without delay."""
        self.proposal(number)
        while self.in_flight:
            self.compare_and_set(is_answered=True, is_last=False)
        while self.answers:
            self.answer()

    def lag(self, number: int, follower: int) -> None:
        """One follower is slow, and leaves."""
        self.produce_and_fetch(number, 1, set(BROKERS) - {follower})
        self.time_passes()
        self.produce_and_fetch(number, 1, set(BROKERS) - {follower})
        self.change_isr(number)

    def calm_down(self) -> None:
        """All processes live, handle their instructions, and have time."""
        self.in_flight.clear()
        for number in BROKERS:
            self.start(number)
        self.min_isr = 1
        self.control()
        for _ in range(2):
            for number in BROKERS:
                self.repeat(number)
            self.catch_up(BROKERS)
            self.change_isr(self.store.leader)

    def fail_over(self, number: int, is_quick: bool) -> None:
        self.kill(number)
        if is_quick:
            self.start(number)
        self.control()

    def hang_up(self, number: int) -> None:
        connection = self.connections.pop(number, None)
        if connection is not None:
            connection.close()

    # The controller and the store.

    def instruct(self, number: int) -> None:
        if number in self.alive and self.instructions[number]:
            self.alive[number].handle(self.instructions[number].popleft(), self.min_isr)

    def repeat(self, number: int) -> None:
        if number in self.alive:
            self.instructions[number].append(self.store)

    def hear_old_news(self, number: int, index: int) -> None:
        """Something that was said before; what was said to an earlier life its daemon refuses."""
        said = self.history[self.born[number] :] if number in self.alive else []
        if said:
            self.alive[number].handle(said[index % len(said)], self.min_isr)

    def control(self) -> None:
        """A broker died, or came back: shrink, elect, as `on_broker_change` does."""
        live = set(self.alive)
        lost = self.gone | (set(BROKERS) - live)
        self.gone = set()
        isr = [one for one in self.store.isr if one not in lost]
        if not isr:
            isr = list(self.store.isr)
            candidates = [one for one in isr if one in live]
        else:
            candidates = isr
        leader = self.store.leader if self.store.leader in candidates else NO_LEADER
        if leader == NO_LEADER and candidates:
            leader = candidates[0]
        if lost or leader != self.store.leader:
            self.write(leader, isr)

    def move(self, number: int) -> None:
        if number in self.store.isr and number in self.alive and self.store.leader in self.alive:
            self.write(number, self.store.isr)

    def ask_for(self, least: int) -> None:
        self.min_isr = least

    def proposal(self, number: int) -> None:
        if number in self.alive:
            process = self.alive[number]
            self.in_flight.extend((process, one) for one in process.leaders.proposals(LAG_S))

    def compare_and_set(self, is_answered: bool, is_last: bool, is_late: bool = False) -> None:
        """``is_late``: an answer comes before the write is done, as if from a read elsewhere."""
        if not self.in_flight:
            return
        process, proposal = self.in_flight.pop() if is_last else self.in_flight.popleft()
        if is_late:
            self.in_flight.append((process, proposal))
            self.answers.append((process, IsrAnswer(ORDERS, self.store, is_granted=False)))
            return
        is_granted = (self.store.leader_epoch, self.store.version) == (
            proposal.leader_epoch,
            proposal.version,
        )
        if is_granted:
            self.store = self.store._replace(isr=proposal.isr, version=proposal.version + 1)
        stands = self.store if is_answered else None
        self.answers.append((process, IsrAnswer(ORDERS, stands, is_granted=is_granted)))

    def answer(self) -> None:
        if not self.answers:
            return
        process, answer = self.answers.popleft()
        if process is self.alive.get(process.number):
            process.leaders.answer(answer)

    # What goes wrong.

    def kill(self, number: int) -> None:
        process = self.alive.pop(number, None)
        if process is None:
            return
        # Its session writes nothing more once the next process of the broker gets its role.
        self.in_flight = deque(one for one in self.in_flight if one[0] is not process)
        self.gone.add(number)
        del self.instructions[number]
        for follower, connection in tuple(self.connections.items()):
            if number in (follower, connection.leader.number):
                del self.connections[follower]
                connection.close()

    def start(self, number: int) -> None:
        if number not in self.alive:
            self.begin(number)
            self.instructions[number].append(self.store)

    # What must hold.

    def what_is_acknowledged_is_in_every_replica_in_sync(self) -> None:
        still = []
        for sent in self.waiting:
            process = sent.process
            replica = process.replica
            leader = None if replica is None else replica.leader
            if self.alive.get(process.number) is not process or replica is None or leader is None:
                continue
            if leader.leader_epoch != sent.leader_epoch or leader.is_superseded:
                continue
            if replica.log.high_watermark <= sent.offset:
                still.append(sent)
                continue
            assert self.committed.setdefault(sent.offset, sent.record) == sent.record
        self.waiting = still
        for number in self.store.isr:
            records = self.logs()[number]
            for offset, record in self.committed.items():
                assert offset < len(records), (number, offset, record, records)
                assert records[offset] == record, (number, offset, record, records)

    def logs_agree_up_to_the_high_watermark(self) -> None:
        replicas = [one.replica for one in self.alive.values() if one.replica is not None]
        for one in replicas:
            for other in replicas:
                upto = min(one.log.high_watermark, other.log.high_watermark)
                assert one.log.read(0, upto) == other.log.read(0, upto)

    def what_is_in_memory_is_on_the_disk(self) -> None:
        logs = self.logs()
        for number, process in self.alive.items():
            if (replica := process.replica) is not None:
                assert logs[number] == replica.log.read(0, replica.log.end_offset)

    def everybody_is_in_sync(self) -> None:
        assert self.store.isr == BROKERS
        first, *others = self.logs().values()
        assert all(log == first for log in others)

    def logs(self) -> dict[int, list[LogRecord]]:
        found = {number: disk.load().get(ORDERS) for number, disk in self.disks.items()}
        return {number: stored.records if stored else [] for number, stored in found.items()}


def steps(cluster: Cluster, rng: random.Random) -> list[tuple[int, Callable[[], None]]]:
    """What may happen next, each with how often it does."""

    def broker() -> int:
        return rng.choice(BROKERS)

    def some() -> list[int]:
        return rng.sample(BROKERS, rng.randint(1, 3))

    def flip() -> bool:
        return rng.random() < 0.5

    def act(of: Cluster) -> list[tuple[int, Callable[[], None]]]:
        return [
            (6, lambda: of.produce(broker(), rng.randint(1, 3))),
            (6, lambda: of.produce_and_fetch(of.store.leader, 1, some())),
            (4, lambda: of.name(broker())),
            (4, lambda: of.serve(broker(), rng.randint(1, 2))),
            (4, lambda: of.receive(broker())),
            (4, lambda: of.replicate(broker())),
            (4, lambda: of.catch_up(some())),
            (1, lambda: of.hang_up(broker())),
            (4, lambda: of.instruct(broker())),
            (1, lambda: of.repeat(broker())),
            (1, lambda: of.hear_old_news(broker(), rng.randrange(100))),
            (2, of.control),
            (1, lambda: of.move(broker())),
            (1, lambda: of.ask_for(rng.randint(1, 2))),
            (3, lambda: of.proposal(of.store.leader)),
            (1, lambda: of.proposal(broker())),
            (3, lambda: of.compare_and_set(flip(), flip(), is_late=rng.random() < 0.3)),
            (2, of.answer),
            (3, lambda: of.change_isr(of.store.leader)),
            (1, of.time_passes),
            (2, lambda: of.lag(of.store.leader, broker())),
            (1, lambda: of.kill(broker())),
            (1, lambda: of.fail_over(broker(), is_quick=flip())),
            (2, lambda: of.start(broker())),
        ]

    return act(cluster)


def walk(seed: int) -> Cluster:
    """A run; the same for the same seed."""
    rng = random.Random(seed)
    cluster = Cluster()
    weights, acts = zip(*steps(cluster, rng), strict=True)
    for act in rng.choices(acts, weights, k=STEPS):
        act()
        cluster.what_is_acknowledged_is_in_every_replica_in_sync()
        cluster.logs_agree_up_to_the_high_watermark()
        cluster.what_is_in_memory_is_on_the_disk()
    cluster.calm_down()
    cluster.what_is_acknowledged_is_in_every_replica_in_sync()
    cluster.everybody_is_in_sync()
    return cluster


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_no_acknowledged_record_is_lost_and_no_two_logs_differ(first: int) -> None:
    runs = [walk(seed) for seed in range(first, first + 50)]
    # Otherwise nothing was tested.
    assert sum(len(run.committed) for run in runs) > 500
    assert sum(run.store.leader_epoch for run in runs) > 200
