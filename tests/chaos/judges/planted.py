"""A judge that was not seen to fail proves nothing: each run plants a violation of each sentence.

Short stories are appended to what was recorded, of brokers, namespaces and hashes that are in no
other part of it: one is as it should be, and in each of the others one thing is false. The judges
must say nothing of the first, and find what is planted in each of the others; else the run fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import LeadEpoch
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies
from tests.chaos.clients.counter import Reading
from tests.chaos.cluster.cluster import RECOVERY_S
from tests.chaos.cluster.configuration import Answer
from tests.chaos.judges.acts import Guard
from tests.chaos.judges.evidence import EXPIRY_MS, GRACE_MS, WATCHDOG_MS, Evidence
from tests.chaos.judges.held_loops import Hold
from tests.chaos.judges.history import Change, Changed, Closed, Created, Deleted, Transaction
from tests.support.replicas.replica_logs import Consumed

_FIRST_SESSION: Final = 0x7FFF_0000_0000_0001
_PARTITION: Final = TopicPartition("planted", 0)
_STORY_MS: Final = 60_000
_BUSY: Final = "busy:1"
_DEAD: Final = "dead:1"
_EXPIRY_MS: Final = 10_000
_CLOSED_MS: Final = 51_000
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Story:
    """A owns the bundle until its session ends; after the grace B owns it, and gives it up."""

    sentence: str
    takeover_ms: int = _EXPIRY_MS + GRACE_MS + 1_000
    is_late: bool = False
    is_overtaken: bool = False
    is_refused: bool = False
    is_guessed: bool = False
    is_epoch_lowered: bool = False
    is_overlapped: bool = False
    is_left: bool = False


_STORIES: Final[Mapping[str, _Story]] = {
    "well": _Story(""),
    "late": _Story("I1a", is_late=True),
    "overtaken": _Story("I1b", is_overtaken=True),
    "refused": _Story("I1b", is_refused=True),
    "guessed": _Story("I2", is_guessed=True),
    "lowered": _Story("I3", is_epoch_lowered=True),
    "overlapped": _Story("I5", is_overlapped=True),
    "early": _Story("I7", takeover_ms=_EXPIRY_MS + GRACE_MS // 2),
    "left": _Story("I8", is_left=True),
}
# Of what was recorded besides histories and acts, by what the complaint must name.
_BESIDES: Final = (
    ("I4", "7 was found where 5 to 6"),
    ("I6", "what was planted"),
    ("I6", "planted:1 had no"),
    ("I9", str(_PARTITION)),
    ("I12", f"{_BUSY} was busy"),
    ("I12", f"{_DEAD} was dead"),
)


def sentences(guard: Guard) -> frozenset[str]:
    """What a phase checks, and shows that it can find."""
    covered = {story.sentence for story in _stories(guard).values()} - {""}
    return frozenset(covered | {sentence for sentence, _ in _BESIDES})


def missed(evidence: Evidence) -> Iterator[str]:
    """What the judges do not find, or find where nothing is."""
    before = set(evidence.judged(evidence.replay()))
    planted = _plant(evidence)
    found = [said for said in planted.judged(planted.replay()) if said not in before]
    for name, story in _stories(evidence.guard).items():
        # An epoch has no owner to name.
        mark = "" if story.is_epoch_lowered else f"{name}-"
        heard = [said for said in found if said.startswith(f"{story.sentence}: ") and mark in said]
        if story.sentence and not heard:
            yield f"{story.sentence}: what was planted ({name}) was not found"
    for said in found:
        if "well-" in said:
            yield f"nothing was false, and was judged so: {said}"
    for sentence, mark in _BESIDES:
        if not any(said.startswith(f"{sentence}: ") and mark in said for said in found):
            yield f"{sentence}: what was planted was not found"


def _stories(guard: Guard) -> Mapping[str, _Story]:
    # Without a lease acts are not dated with authority.
    skipped = set() if guard is Guard.LEASE else {"late"}
    return {name: story for name, story in _STORIES.items() if name not in skipped}


def _plant(evidence: Evidence) -> Evidence:
    history, acts, refused = list(evidence.history), list(evidence.acts), list(evidence.refused)
    begin_ms = max((one.time_ms for one in history), default=0)
    zxids = count(max((one.zxid for one in history), default=0) + 1)
    for number, (name, story) in enumerate(_stories(evidence.guard).items()):
        writer = _Writer(evidence, name, number, begin_ms + number * _STORY_MS)
        transactions = [
            Transaction(next(zxids), session, at_ms, tuple(changes))
            for at_ms, session, changes in writer.transactions(story)
        ]
        history += transactions
        tokens = [one.zxid for one in transactions if writer.owns(one)]
        acts += writer.acts(story, tokens)
        refused += writer.refused(story, tokens)
    return replace(
        evidence,
        history=history,
        acts=acts,
        refused=refused,
        recoveries=[*evidence.recoveries, ("what was planted", RECOVERY_S + 1.0)],
        holds=[*evidence.holds, *_holds(begin_ms)],
        readings=[*evidence.readings, Reading(5, 6, 7)],
        answers=[
            *evidence.answers,
            Answer("what is planted", "planted:1", "answer", is_given=False),
        ],
        consumed=[
            *evidence.consumed,
            Consumed(_PARTITION, 0, b"one"),
            Consumed(_PARTITION, 0, b"another"),
        ],
    )


def _holds(begin_ms: int) -> Iterator[Hold]:
    """Two loops that do well, and two that do not; of the sessions of the first story.

    The first session ends when it expires, the second at the end of the story.
    """
    expired_ms, closed_ms = begin_ms + 1_000 + _EXPIRY_MS, begin_ms + 1_000 + _CLOSED_MS
    first, second = _sessions(0)
    limit_ms = WATCHDOG_MS + EXPIRY_MS
    yield Hold("well-busy:1", first, expired_ms - WATCHDOG_MS, expired_ms - 1)
    yield Hold("well-dead:1", first, expired_ms - WATCHDOG_MS, expired_ms + limit_ms)
    yield Hold(_BUSY, first, expired_ms - WATCHDOG_MS + 1, expired_ms)
    yield Hold(_DEAD, second, closed_ms - limit_ms - 1, closed_ms)


def _sessions(number: int) -> tuple[int, int]:
    """Of the two brokers of a story."""
    return _FIRST_SESSION + 2 * number, _FIRST_SESSION + 2 * number + 1


class _Writer:
    """One story, in the words of what was recorded."""

    def __init__(self, evidence: Evidence, name: str, number: int, begin_ms: int) -> None:
        self._evidence = evidence
        self._begin_ms = begin_ms
        # No topic of a run lies at so low a hash.
        self._hash = number
        self._brokers = f"{name}-a:1", f"{name}-b:1"
        self._sessions = _sessions(number)
        namespace = Namespace("planted", f"{name}-story")
        (self._whole,) = Ring.even(namespace, 1).bundles
        self._left, _ = Ring.even(namespace, 2).bundles

    def transactions(self, story: _Story) -> Iterator[tuple[int, int, Sequence[Change]]]:
        """When, in which session, and what changes; in order."""
        first, second = self._sessions
        policies = self._path(paths.local_policies(self._whole.namespace))
        local = Created(policies, LocalPolicies().encode(), is_ephemeral=False)
        yield self._at(0), first, [local, self._registers(0)]
        # Who takes over is there before the owner goes.
        yield self._at(1_000), second, [self._registers(1)]
        yield self._at(2_000), first, [self._takes(0)]
        if story.is_overlapped:
            path = self._path(paths.ownership(self._left))
            yield self._at(3_000), second, [Created(path, self._record(1), is_ephemeral=True)]
        if story.is_epoch_lowered:
            path = self._path(paths.LOADBALANCE_ELECTION.epoch_path)
            yield self._at(3_000), first, [Changed(path, LeadEpoch(0, "nobody").encode(), 0)]
        yield self._at(_EXPIRY_MS), first, [Closed()]
        yield self._at(story.takeover_ms), second, [self._takes(1)]
        if not story.is_left:
            yield self._at(50_000), second, [Deleted(self._path(paths.ownership(self._whole)))]
            yield self._at(_CLOSED_MS), second, [Closed()]

    def owns(self, one: Transaction) -> bool:
        """Whether an owner of the whole bundle begins there."""
        path = self._path(paths.ownership(self._whole))
        return any(isinstance(each, Created) and each.path == path for each in one.changes)

    def acts(self, story: _Story, tokens: Sequence[int]) -> Iterator[ServeEvent]:
        """What the shared log accepts."""
        first, second = tokens
        yield self._act(0, first, 3_000)
        yield self._act(0, first, 9_000)
        if story.is_late:
            yield self._act(0, first, _EXPIRY_MS + 500)
        yield self._act(1, second + 1 if story.is_guessed else second, 20_000)
        if story.is_overtaken:
            yield self._act(0, first, 21_000)

    def refused(self, story: _Story, tokens: Sequence[int]) -> Iterator[ServeEvent]:
        """What it does not."""
        first, second = tokens
        yield self._act(0, first, 22_000)
        if story.is_refused:
            yield self._act(1, second, 22_000)

    def _act(self, broker: int, token: int, at_ms: int) -> ServeEvent:
        wall_ns = self._at(at_ms) * _MS
        t_ns = wall_ns - self._evidence.clock.offset_ns(wall_ns)
        return ServeEvent(t_ns, self._brokers[broker], token, (self._hash,))

    def _registers(self, broker: int) -> Created:
        path = self._path(paths.registration(self._brokers[broker]))
        return Created(path, b"{}", is_ephemeral=True)

    def _takes(self, broker: int) -> Created:
        path = self._path(paths.ownership(self._whole))
        return Created(path, self._record(broker), is_ephemeral=True)

    def _record(self, broker: int) -> bytes:
        broker_id = self._brokers[broker]
        return NamespaceEphemeralData(BrokerUrls(broker_id, f"http://{broker_id}")).encode()

    def _path(self, path: str) -> str:
        return f"{self._evidence.chroot}{path}"

    def _at(self, ms: int) -> int:
        return self._begin_ms + 1_000 + ms
