"""Random programs of several tasks, cut and cancelled anywhere, against the plain store.

Whatever is asked on a path has it for itself in the order of submission, so the plain store, asked
one thing after the other in that order, must give every caller the same answer.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.errors import Ambiguous, BadVersion, MultiFailed, NoNode, StoreError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import VirtualLoop
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from tests.store.batching.recording_store import Bench, bench

PATHS = ("/a", "/b", "/c")
GUARDS = ("/epoch", "/ring")
TASKS = 6
CANCELLED = "cancelled"


@dataclass
class Ask:
    """One request of a program, and its outcome.

    Attributes:
        made, answered: its places in the order of submissions and of answers, from 0.
    """

    kind: str
    paths: tuple[str, ...]
    operations: tuple[Operation, ...] = ()
    made: int = -1
    answered: int = -1
    outcome: Any = None

    @property
    def mark(self) -> bytes | None:
        """Data that no other request writes, if it writes any."""
        return next((op.data for op in self.operations if isinstance(op, Create | SetData)), None)

    @property
    def is_read(self) -> bool:
        return self.kind in {"get", "exists", "children"}

    def alone(self) -> set[str]:
        return {op.path for op in self.operations if not isinstance(op, Check)}

    async def of(self, store: MetadataStore) -> object:
        """Ask it of ``store``."""
        (path, *_), operation = self.paths, self.operations[0] if self.operations else None
        if self.kind == "multi":
            return await store.multi(self.operations)
        match operation:
            case Create():
                # Only where no other request depends on whether the parent is there yet.
                return await store.create(
                    path, operation.data, operation.mode, make_parents=path.count("/") > 1
                )
            case SetData():
                return await store.set(path, operation.data, operation.version)
            case Delete():
                await store.delete(path, operation.version)
                return None
            case _:
                read: Callable[[str], Awaitable[object]] = getattr(store, self.kind)
                return await read(path)


class Author:
    """Draws requests."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._marks = 0

    def ask(self) -> Ask:
        rng = self._rng
        kind = rng.choice(["get", "exists", "children", "write", "write", "write", "multi"])
        if kind == "multi":
            operations = self._transaction()
            return Ask(kind, tuple(op.path for op in operations), operations)
        if kind == "write":
            operation = self._change(rng.choice([*PATHS, *GUARDS, "/p/x", "/p/y/z"]))
            return Ask(kind, (operation.path,), (operation,))
        return Ask(kind, (rng.choice([*PATHS, *GUARDS]),))

    def _change(self, path: str) -> Operation:
        rng = self._rng
        self._marks += 1
        data = b"%d" % self._marks
        version = rng.choice([-1, -1, 0, 1])
        choice = rng.randrange(4)
        if choice == 0:
            return Delete(path, version)
        if choice == 1:
            return SetData(path, data, version)
        mode = rng.choice([CreateMode.PERSISTENT, CreateMode.EPHEMERAL])
        return Create(path, data, mode if path in PATHS else CreateMode.PERSISTENT)

    def _transaction(self) -> tuple[Operation, ...]:
        rng = self._rng
        checks = [Check(guard, rng.choice([-1, 0])) for guard in GUARDS if rng.random() < 0.5]
        changes: list[Operation] = [
            self._change(path) for path in rng.sample(PATHS, rng.randrange(1, 3))
        ]
        if rng.random() < 0.2:
            changes.append(changes[0])
        operations = [*checks, *changes]
        if rng.random() < 0.2:
            rng.shuffle(operations)
        return tuple(operations)


@dataclass
class Run:
    """A program on a bench."""

    rng: random.Random
    cuts: list[int]
    asks: list[Ask] = field(default_factory=list)
    transits: int = 0
    answers: int = 0

    async def go(self, built: Bench, each: int) -> None:
        for path in GUARDS:
            await built.under.create(path)

        async def transit() -> None:
            self.transits += 1
            if self.transits in self.cuts:
                # On the way there nothing was executed; on the way back all was.
                built.under.disconnect()
                asyncio.get_running_loop().call_later(0.05, built.under.reconnect)
            await asyncio.sleep(self.rng.choice([0.0, 0.001, 0.002]))

        built.transit = transit
        author = Author(self.rng)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for number in range(TASKS):
                program = [author.ask() for _ in range(each)]
                tasks.create_task(self._carry_out(built, program), name=f"task {number}")
        built.transit = _soon

    async def _carry_out(self, built: Bench, program: list[Ask]) -> None:
        for ask in program:
            patience_s = self.rng.choice([0.0, 0.001, 0.004]) if self._gives_up(ask) else None
            try:
                async with asyncio.timeout(patience_s):
                    ask.made = len(self.asks)
                    self.asks.append(ask)
                    ask.outcome = await ask.of(built.store)
            except StoreError as error:
                ask.outcome = error
            except TimeoutError:
                ask.outcome = CANCELLED
            ask.answered = self.answers
            self.answers += 1
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.choice([0.0, 0.001]))

    def _gives_up(self, ask: Ask) -> bool:
        # A write that is given up may be done anyway: its mark in the store shows that.
        return self.rng.random() < 0.15 and (ask.is_read or ask.mark is not None)


async def _soon() -> None:
    await asyncio.sleep(0)


def comparable(outcome: object) -> object:
    """An answer without what another store numbers otherwise: zxids, sessions, times."""
    match outcome:
        case MultiFailed():
            return ("multi failed", outcome.index, outcome.path, type(outcome.cause))
        case StoreError():
            return type(outcome)
        case Versioned():
            return (outcome.path, outcome.data, comparable(outcome.stat))
        case Stat():
            return (outcome.version, outcome.data_length, outcome.is_ephemeral)
        case tuple():
            return tuple(map(comparable, outcome))
    return outcome


async def must_be_as_alone(run: Run, built: Bench) -> None:
    """The plain store, asked the same one after the other, answers the same."""
    committed = Counter(
        op.data
        for operations in built.ensemble.committed
        for op in operations
        if isinstance(op, Create | SetData) and op.data
    )
    meant = Counter(
        op.data for ask in run.asks for op in ask.operations if isinstance(op, Create | SetData)
    )
    assert all(times == meant[mark] for mark, times in committed.items()), "applied twice"
    alone = MemoryStore(MemoryEnsemble(), session_timeout_s=3600.0)
    await alone.start()
    await alone.wait_connected()
    for path in GUARDS:
        await alone.create(path)
    done = {id(op) for operations in built.ensemble.committed for op in operations}
    for ask in run.asks:
        is_unknown = ask.outcome is CANCELLED or isinstance(ask.outcome, Ambiguous)
        if is_unknown and ask.mark is None and ask.kind == "write":
            return  # a delete: nothing shows whether it was done
        was_done = ask.mark in committed or any(id(op) in done for op in ask.operations)
        if is_unknown and (ask.is_read or not was_done):
            continue
        try:
            expected = await ask.of(alone)
        except StoreError as error:
            expected = error
        if not (is_unknown or (run.cuts and is_gone_anyhow(ask, expected))):
            assert comparable(ask.outcome) == comparable(expected), ask
    for path in (*PATHS, *GUARDS, "/p/x", "/p/y/z"):
        assert comparable(await built.under.get(path)) == comparable(await alone.get(path))
    await alone.close()


def is_gone_anyhow(ask: Ask, expected: object) -> bool:
    """Of a delete whose reply was lost it is enough that the node is gone.

    Also where a check would have refused it (docs: ambiguous-writes).
    """
    cause = expected.cause if isinstance(expected, MultiFailed) else expected
    is_deletion = all(isinstance(op, Delete | Check) for op in ask.operations)
    return (
        is_deletion
        and isinstance(cause, NoNode | BadVersion)
        and not isinstance(ask.outcome, StoreError)
    )


def answers_must_be_in_order(asks: list[Ask]) -> None:
    heard = [ask for ask in asks if ask.outcome is not CANCELLED]
    for place, later in enumerate(heard):
        for earlier in heard[:place]:
            common = set(earlier.paths) & set(later.paths)
            is_ordered = common & (earlier.alone() | later.alone())
            if is_ordered or (common and earlier.is_read and later.is_read):
                assert earlier.answered < later.answered, (earlier, later)
                assert zxid_of(earlier) <= zxid_of(later) or not zxid_of(later)


def zxid_of(ask: Ask) -> int:
    """Of the state that it was answered with, 0 if the answer has none."""
    if len(ask.paths) > 1:
        return 0
    stat = ask.outcome.stat if isinstance(ask.outcome, Versioned) else ask.outcome
    return stat.mzxid if isinstance(stat, Stat) else 0


def batches_must_be_lawful(asks: list[Ask], batches: list[tuple[Operation, ...]]) -> None:
    multis = [ask for ask in asks if ask.kind == "multi"]
    authors = {id(op): ask for ask in multis for op in ask.operations}
    for batch in batches:
        changes = [op for op in batch if not isinstance(op, Check)]
        owners = [authors.get(id(op)) for op in changes]
        inside = [ask for ask in multis if any(owner is ask for owner in owners)]
        for ask in inside:
            own = [op for op in ask.operations if not isinstance(op, Check)]
            assert [op for op, owner in zip(changes, owners, strict=True) if owner is ask] == own
        paths = [op.path for op, owner in zip(changes, owners, strict=True) if owner is None]
        for ask in inside:
            paths += ask.alone()
        assert len(paths) == len(set(paths)), "two mutations of one path"
        if len(inside) + owners.count(None) > 1:
            checks = {op for op in batch if isinstance(op, Check)}
            assert not (checks and None in owners), "guarded and unguarded"
            for ask in inside:
                assert {op for op in ask.operations if isinstance(op, Check)} == checks
            lives = {is_bound(list(ask.operations)) for ask in inside}
            lives |= {
                is_bound([op]) for op, owner in zip(changes, owners, strict=True) if owner is None
            }
            assert len(lives) == 1, "ephemeral and persistent"


def is_bound(operations: list[Operation]) -> bool:
    return any(isinstance(op, Create) and op.mode.is_ephemeral for op in operations)


RULES = st.builds(
    BatchRules,
    is_adaptive=st.booleans(),
    max_operations=st.sampled_from([1, 2, 5, 1000]),
    max_in_flight=st.sampled_from([1, 2, 4]),
    max_bytes=st.sampled_from([100, 400, 128 * 1024]),
)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    cuts=st.lists(st.integers(3, 120), max_size=4),
    rules=RULES,
)
def test_every_caller_is_answered_as_if_it_were_alone_and_in_order(
    seed: int, cuts: list[int], rules: BatchRules
) -> None:
    async def scenario() -> None:
        run = Run(random.Random(seed), cuts)
        async with bench(rules) as built:
            await run.go(built, each=8)
            assert await built.is_left_idle(), vars(built.store)
            answers_must_be_in_order(run.asks)
            batches_must_be_lawful(run.asks, built.under.writes)
            await must_be_as_alone(run, built)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_programs_do_form_batches_and_refusals(seed: int) -> None:
    """The property above is not trivially true: batches and refusals do occur."""

    async def scenario() -> None:
        run = Run(random.Random(seed), [20])
        async with bench() as built:
            await run.go(built, each=30)
            assert max(map(len, built.under.writes)) > 2
            assert max(map(len, built.under.reads)) > 1
            assert sum(isinstance(ask.outcome, MultiFailed) for ask in run.asks) > 2
            assert sum(isinstance(ask.outcome, StoreError) for ask in run.asks) > 10
            assert sum(ask.outcome is CANCELLED for ask in run.asks) > 2

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
