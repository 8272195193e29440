"""The replica API, a part of the API of `wire` for broker processes that replicate.

The replica API, a part of the API of `wire` for broker processes that replicate partitions.

A broker process without replicas answers 404 to ``GET /replicas``, and serves none of these paths.
Addresses, secret, bounds, ``instance_id`` and errors are those of `wire`. A partition is encoded as
a list, since one call has thousands. Data that exceeds one body is sent in several calls, each of
which is complete by itself.

    POST /replicas/become-leader    {topics, partitions: [ENTRY], adding}   {errors: [ERROR]}
    POST /replicas/become-follower  {topics, partitions: [ENTRY], adding, brokers}
                                                                            {errors: [ERROR]}
    POST /replicas/stop             {stops: [STOP]}                         {errors: [ERROR]}
    GET  /replicas                                                          {replicas: [REPLICA]}
    GET  /replicas/isr-wishes?lag_time_max_ms=MS&throttle_bytes_per_s=RATE  {wishes: [PROPOSAL]}
    POST /replicas/isr-answers      {answers: [ANSWER]}                     {}

    topics   {NAME: TOPIC_ID}: of all that are named; an ID is new each time a topic is made
    brokers  {ID: "host:port"}: the broker processes that live, by broker id; for all followers, so
             that a call may have new addresses and no partitions
    adding   [[TOPIC, PARTITION, [ID]]]: the replicas that reassignments add; absent: none
    ENTRY    [TOPIC, PARTITION, LEADER, LEADER_EPOCH, CONTROLLER_EPOCH, VERSION, [ISR], [REPLICAS],
              IS_RECOVERING, MIN_ISR]
    STOP     [TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH, IS_DELETED]
    REPLICA  [TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH, IS_FAILED]
    PROPOSAL [TOPIC, PARTITION, LEADER_EPOCH, VERSION, [ISR]]
    ANSWER   [TOPIC, PARTITION, STATE or null, IS_GRANTED]
    STATE    [LEADER, LEADER_EPOCH, CONTROLLER_EPOCH, VERSION, [ISR], IS_RECOVERING]
    ERROR    [TOPIC, PARTITION, REASON]: storage_error, stale_epoch, wrong_topic_id, no_replica,
             failed; partitions that are not listed succeeded

LEADER, ISR and REPLICAS are broker ids; a LEADER of -1 is none. REPLICAS are those that may join
the ISR: the assigned ones, without brokers that are about to stop. VERSION is that of the node in
the store. A PROPOSAL is a change of the ISR that a leader requests (Kafka's AlterPartition). All
calls may be repeated; each repetition is another call, with a number of its own.

What the broker process promises:

1.  It remembers topic id and leader epoch of each replica that it holds, and reports them, as long
    as it has the log: also after a restart.
2.  An entry with a smaller leader epoch is refused (``stale_epoch``); with an equal one VERSION,
    ISR, REPLICAS and MIN_ISR are adopted, and nothing else; with another topic id it is refused
    (``wrong_topic_id``). An absent replica is created.
3.  Before it leads or follows it stops fetching. A leader accepts writes only under a leader epoch
    of an instruction, and with authority; an acknowledged record is in the log of every member of
    the ISR, which has at least MIN_ISR members. Before a follower fetches, it truncates records
    that its leader never had, by leader epoch (KIP-320).
4.  A leader changes the ISR by a proposal, whose members are all in the ISR or among REPLICAS. It
    repeats the same proposal until it is answered, and until then requires the members of both ISRs
    to commit. An answer with a version that is not larger than the leader's own says that the
    proposal is not written yet; one with a larger leader epoch ends the leadership. After a restart
    the broker process has no proposals, and leads again when it is instructed, even under the same
    leader epoch. A request for proposals makes it propose to remove the followers that have not
    caught up for MS milliseconds (an integer of at least 1), and no others. The latest request
    determines MS, because another daemon may have another setting. If MS is absent, which ends with
    the next release, the broker process applies a limit of its own.
5.  A stop ends leading and fetching, and with IS_DELETED it deletes the log too, whatever the
    leader epoch. A replica that is not held needs no stop. While a stop without IS_DELETED is
    answered with an error, and its replica is not listed as IS_FAILED, no session begins.
6.  RATE is the most bytes of records a second, an integer of at least 1, that the broker process
    sends to replicas that are in ``adding`` of the newest entry and not in sync, to all of them
    together, and the most that it fetches for its own replicas of that kind. It applies until the
    next request for proposals; absent: there is no limit. A replica that is in sync is never held
    back. A broker process that cannot do this ignores both.
7.  A call that is meant for another ``instance_id`` is refused (412): only a daemon that knows this
    instance makes it lead. A call of the first three paths is refused (409) if its ``call`` is
    smaller than that of a call which was accepted for one of its replicas that is held: so a late
    deletion does not delete a replica that has been assigned here again. A call of an earlier
    daemon is refused (409) once a later daemon has called.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from broker_ctl import codec
from broker_ctl.core.partitions.instructions import (
    REASONS,
    Adding,
    ReplicaError,
    ReplicaState,
    ReplicaStop,
    adding_field,
    adding_of,
    adding_row,
    entry_of,
    entry_row,
    stop_of,
    stop_row,
)
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition, validate_topic
from broker_ctl.dataplane.webhook.wire import MAX_REQUEST_BYTES, MAX_TOKEN, PREFIX, field
from broker_ctl.errors import InvalidName

# The protocol of a data plane that keeps replicas of partitions.
#
# Docs: broker-process, kafka-design-v3. The daemon has checked the instructions that it forwards:
# controller epoch and broker epoch are the newest, and this broker has a replica of each
# partition. Topic id and leader epoch are checked again beside the log, since the daemon may have
# restarted while the broker process kept running.


class HeldReplica(NamedTuple):
    """A replica that the broker process has on disk.

    Attributes:
        leader_epoch: the newest one that it was instructed with.
        is_failed: its log cannot be read or written.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    is_failed: bool = False


class IsrProposal(NamedTuple):
    """An ISR that a leader requests; until the answer it counts the members of the larger ISR.

    Attributes:
        leader_epoch: under which it leads.
        version: of the node that it knows: the write is refused if the node has another version.
        isr: broker ids, ascending, the leader among them.
    """

    partition: TopicPartition
    leader_epoch: int
    version: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """The answer to a proposal: the state in the store now.

    Attributes:
        state: None if the node is gone or could not be read; the leader proposes again later.
        is_granted: whether the proposal is the stored ISR, under the leader epoch of the proposing
            leader.
    """

    partition: TopicPartition
    state: LeaderAndIsr | None
    is_granted: bool


class ReplicaPlane(Protocol):
    """A broker process that keeps replicas.

    All methods raise `DataPlaneUnreachable` or `DataPlaneRefused`; each may be repeated. Partitions
    without an error in the answer are done.
    """

    def expect(self, instance_id: str) -> None:
        """Address every further call to this instance of the broker process only."""
        ...

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        """Lead: stop fetching, then take writes under the leader epoch, which is in ``state``.

        ``replicas`` are the only ones that may join the ISR. With an equal leader epoch only
        ``version``, ``isr``, ``replicas`` and ``min_isr`` are adopted; a smaller one is refused. An
        absent replica is created.
        """
        ...

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        """Follow: accept no writes, truncate by leader epoch what the leader never had, then fetch.

        ``brokers`` are the addresses of the live brokers by id. Without a leader, or its address,
        nothing is fetched until the next call.
        """
        ...

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        """Neither lead nor follow; if the stop is a deletion, also remove the log."""
        ...

    async def replicas(self) -> Sequence[HeldReplica]:
        """All that is held."""
        ...

    async def isr_proposals(
        self, lag_time_s: float, throttle: int | None = None
    ) -> Sequence[IsrProposal]:
        """ISR changes that the leaders here request; each is repeated until it is answered.

        The leaders request to remove followers that have not caught up for ``lag_time_s``. Until
        the next call, ``throttle`` is how many bytes a second this broker may send to replicas that
        reassignments add, and as many may come to its own; None: any number.
        """
        ...

    async def answer_proposals(self, answers: Sequence[IsrAnswer]) -> None:
        """Answer the leaders' proposals."""
        ...


REPLICAS: Final = f"{PREFIX}/replicas"
BECOME_LEADER: Final = f"{REPLICAS}/become-leader"
BECOME_FOLLOWER: Final = f"{REPLICAS}/become-follower"
STOP: Final = f"{REPLICAS}/stop"
ISR_WISHES: Final = f"{REPLICAS}/isr-wishes"
ISR_ANSWERS: Final = f"{REPLICAS}/isr-answers"
LAG_TIME: Final = "lag_time_max_ms"
THROTTLE: Final = "throttle_bytes_per_s"

# Keys, braces and commas around the counted entries, ``instance_id`` and ``call``.
_FRAME_BYTES: Final = 512


def encode_instructions(
    states: Sequence[ReplicaState], brokers: Mapping[int, str] | None = None
) -> Iterator[dict[str, Any]]:
    """The bodies of become-leader, or with ``brokers`` of become-follower, each small enough."""
    head: dict[str, Any] = {}
    if brokers is not None:
        head["brokers"] = {str(broker): address for broker, address in brokers.items()}
    most = MAX_REQUEST_BYTES - _FRAME_BYTES - len(codec.encode(head))
    topics: dict[str, str] = {}
    entries: list[Any] = []
    adding: list[Any] = []
    size = 0
    for one in states:
        entry = codec.encode(entry_row(one))
        name, topic_id = one.partition.topic, one.topic_id
        added = codec.encode(adding_row(one.partition, one.adding)) if one.adding else b""
        # Counted for each entry, even if the topic is in ``topics`` already.
        more = len(entry) + len(name) + len(topic_id) + 8 + len(added) + 1
        if entries and size + more > most:
            yield {**head, "topics": topics, "partitions": entries, **adding_field(adding)}
            topics, entries, adding, size = {}, [], [], 0
        topics[name] = topic_id
        entries.append(codec.wrap_encoded(entry))
        if added:
            adding.append(codec.wrap_encoded(added))
        size += more
    # Addresses are sent also without a follower: an endpoint may be new.
    if entries or (head and not states):
        yield {**head, "topics": topics, "partitions": entries, **adding_field(adding)}


def encode_stops(stops: Sequence[ReplicaStop]) -> Iterator[dict[str, Any]]:
    """The bodies of stop."""
    return _bodies("stops", [stop_row(stop) for stop in stops])


def encode_answers(answers: Sequence[IsrAnswer]) -> Iterator[dict[str, Any]]:
    """The bodies of isr-answers."""
    rows = [[*one.partition, _state_row(one.state), one.is_granted] for one in answers]
    return _bodies("answers", rows)


def decode_instruction(body: Any) -> list[ReplicaState]:
    """The instructions of become-leader and become-follower.

    Raises:
        ValueError: anything else.
    """
    topics: dict[str, str] = field(body, "topics", dict)
    adding = _read(adding_of, body)
    return [_read(_entry, row, topics, adding) for row in field(body, "partitions", list)]


def brokers(body: Any) -> dict[int, str]:
    """The addresses in become-follower.

    Raises:
        ValueError: anything else.
    """
    addresses: dict[str, Any] = field(body, "brokers", dict)
    return {int(broker): field(addresses, broker, str) for broker in addresses}


def wishes_path(lag_time_s: float, throttle: int | None = None) -> str:
    """Return the path of ISR proposals, given the time that a follower may lag and the throttle."""
    path = f"{ISR_WISHES}?{LAG_TIME}={max(1, round(lag_time_s * 1000))}"
    return path if throttle is None else f"{path}&{THROTTLE}={throttle}"


def lag_time_s(query: Mapping[str, str]) -> float | None:
    """The lag time in isr-wishes; None: the broker process applies its own.

    Raises:
        ValueError: no integer from 1 to 2^63 - 1.
    """
    lag_time_ms = _number_in(query, LAG_TIME)
    return None if lag_time_ms is None else lag_time_ms / 1000


def throttle(query: Mapping[str, str]) -> int | None:
    """The throttle in isr-wishes, bytes a second; None: no limit. Raises as `lag_time_s`."""
    return _number_in(query, THROTTLE)


def _number_in(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 1 <= int(text) <= MAX_TOKEN):
        raise ValueError(f"{name}: an integer from 1 on expected, not {text!r:.80}")
    return int(text)


def stops(body: Any) -> list[ReplicaStop]:
    """The stops of a stop call.

    Raises:
        ValueError: anything else.
    """
    return [_read(stop_of, row) for row in field(body, "stops", list)]


def answers(body: Any) -> list[IsrAnswer]:
    """The answers of an isr-answers call.

    Raises:
        ValueError: anything else.
    """
    return [_read(_answer, row) for row in field(body, "answers", list)]


def errors(payload: Any) -> list[ReplicaError]:
    """The reply to become-leader, become-follower and stop.

    Raises:
        ValueError: anything else.
    """
    return [_read(_error, row) for row in field(payload, "errors", list)]


def errors_json(found: Sequence[ReplicaError]) -> dict[str, Any]:
    """The way back."""
    return {"errors": [[*error.partition, error.reason] for error in found]}


def replicas(payload: Any) -> list[HeldReplica]:
    """The reply to ``GET /replicas``.

    Raises:
        ValueError: anything else.
    """
    return [_read(_held, row) for row in field(payload, "replicas", list)]


def replicas_json(held: Sequence[HeldReplica]) -> dict[str, Any]:
    """The way back."""
    return {"replicas": [[*one.partition, *one[1:]] for one in held]}


def wishes(payload: Any) -> list[IsrProposal]:
    """The reply to ``GET /replicas/isr-wishes``.

    Raises:
        ValueError: anything else.
    """
    return [_read(_proposal, row) for row in field(payload, "wishes", list)]


def wishes_json(proposed: Sequence[IsrProposal]) -> dict[str, Any]:
    """The way back."""
    return {"wishes": [[*one.partition, *one[1:]] for one in proposed]}


def _bodies(name: str, rows: Sequence[Any]) -> Iterator[dict[str, Any]]:
    held: list[Any] = []
    size = 0
    for row in rows:
        data = codec.encode(row)
        if held and size + len(data) + 1 > MAX_REQUEST_BYTES - _FRAME_BYTES:
            yield {name: held}
            held, size = [], 0
        held.append(codec.wrap_encoded(data))
        size += len(data) + 1
    if held:
        yield {name: held}


def _read(reader: Any, row: Any, *rest: Any) -> Any:
    try:
        return reader(row, *rest)
    except (KeyError, TypeError, ValueError, InvalidName) as error:
        raise ValueError(f"{row!r:.80} does not fit: {error!r}") from error


def _partition(topic: Any, number: Any) -> TopicPartition:
    if not isinstance(topic, str) or type(number) is not int or number < 0:
        raise TypeError("a topic and a number from 0 on were expected")
    return TopicPartition(validate_topic(topic), number)


def _entry(row: Sequence[Any], topics: Mapping[str, str], adding: Adding) -> ReplicaState:
    _partition(*row[:2])
    return entry_of(row, topics, adding)


def _state_row(state: LeaderAndIsr | None) -> list[Any] | None:
    if state is None:
        return None
    leader, leader_epoch, isr, controller_epoch, is_recovering, version = state
    return [leader, leader_epoch, controller_epoch, version, isr, is_recovering]


def _answer(row: Sequence[Any]) -> IsrAnswer:
    topic, number, state, is_granted = row
    if state is None:
        return IsrAnswer(_partition(topic, number), None, is_granted=bool(is_granted))
    leader, leader_epoch, controller_epoch, version, isr, is_recovering = state
    stands = LeaderAndIsr(
        leader, leader_epoch, tuple(isr), controller_epoch, bool(is_recovering), version
    )
    return IsrAnswer(_partition(topic, number), stands, is_granted=bool(is_granted))


def _error(row: Sequence[Any]) -> ReplicaError:
    topic, number, reason = row
    if reason not in REASONS:
        raise ValueError(f"reason {reason!r}")
    return ReplicaError(_partition(topic, number), reason)


def _held(row: Sequence[Any]) -> HeldReplica:
    topic, number, topic_id, leader_epoch, is_failed = row
    return HeldReplica(
        _partition(topic, number), str(topic_id), int(leader_epoch), is_failed=bool(is_failed)
    )


def _proposal(row: Sequence[Any]) -> IsrProposal:
    topic, number, leader_epoch, version, isr = row
    members = tuple(int(member) for member in isr)
    return IsrProposal(_partition(topic, number), int(leader_epoch), int(version), members)
