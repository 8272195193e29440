"""What is said of answers to writes: it must be able to fail, too."""

import asyncio
import random

import pytest

from broker_ctl.errors import NodeExists
from broker_ctl.lab.memory_store.ensemble import EnsembleRules
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.memory_store.transport import MemoryRequest
from broker_ctl.store.interface import Create, CreateMode, Operation, Outcome, Stat, Versioned
from tests.deterministic.judges.answered import judge_answer
from tests.deterministic.judges.observed_ensembles import ObservedEnsemble
from tests.deterministic.judges.observer import Observer

UNTRUE = "was not applied, and the answer is yes"


class Case:
    """Two clients want ``wish``; the other one gets it, and then the answer is judged."""

    def __init__(self, wish: Create) -> None:
        loop = asyncio.get_running_loop()
        self.observer = Observer(2.0)
        self.ensemble = ObservedEnsemble(EnsembleRules(), random.Random(1), loop, self.observer)
        self.wish = wish

    async def made_by_another(self) -> Versioned:
        other = MemoryStore(self.ensemble)
        await other.start()
        await other.wait_connected()
        made = await other.create(self.wish.path, self.wish.data, self.wish.mode)
        # As SIGKILL would end it: its session lives on.
        await other.close(end_session=False)
        return made

    def said(
        self,
        *answer: Outcome,
        operations: tuple[Operation, ...] = (),
        zxid_before: int = 0,
        executions: int = 0,
    ) -> str | None:
        request = MemoryRequest("create", lambda *_: None, operations=operations or (self.wish,))
        request.zxid_before, request.executions = zxid_before, executions
        request.answer(answer)
        return judge_answer(request, self.observer)


async def test_an_empty_parent_that_another_made_meanwhile_is_what_was_wanted() -> None:
    case = Case(Create("/parent"))
    assert case.said(await case.made_by_another()) is None


@pytest.mark.parametrize("mode", [CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL])
async def test_an_ephemeral_node_is_never_that_of_another_writer(mode: CreateMode) -> None:
    case = Case(Create("/e", b"1", mode))
    assert case.said(await case.made_by_another()) == UNTRUE


async def test_a_node_with_other_data_is_not_what_was_wanted() -> None:
    case = Case(Create("/a", b"theirs"))
    assert case.said(await case.made_by_another(), operations=(Create("/a", b"mine"),)) == UNTRUE


async def test_a_node_from_before_the_request_is_not_what_was_wanted() -> None:
    case = Case(Create("/parent"))
    made = await case.made_by_another()
    assert case.said(made, zxid_before=made.stat.czxid) == UNTRUE


async def test_a_node_that_no_write_made_is_not_what_was_wanted() -> None:
    case = Case(Create("/parent"))
    stat = Stat(7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 7)
    assert case.said(Versioned("/parent", b"", stat)) == UNTRUE


async def test_a_node_that_was_overwritten_is_not_what_was_wanted() -> None:
    case = Case(Create("/parent"))
    made = await case.made_by_another()
    stat = made.stat._replace(version=1)
    assert case.said(made._replace(stat=stat)) == UNTRUE


async def test_a_transaction_is_never_anothers() -> None:
    case = Case(Create("/parent"))
    made = await case.made_by_another()
    assert case.said(made, made, operations=(case.wish, Create("/b"))) == UNTRUE


async def test_a_write_that_was_applied_twice_or_denied_is_found() -> None:
    case = Case(Create("/parent"))
    made = await case.made_by_another()
    assert case.said(made, executions=1) is None
    assert case.said(made, executions=2) == "was applied 2 times"
    denied = MemoryRequest("create", lambda *_: None, operations=(case.wish,))
    denied.executions = 1
    denied.fail(NodeExists("/parent"))
    said = judge_answer(denied, case.observer)
    assert said is not None
    assert said.startswith("was applied, and the answer is NodeExists")
