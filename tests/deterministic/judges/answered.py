"""I4: what must hold of every write that was answered."""

from collections.abc import Iterator, Sequence

from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NodeExists,
    NotEmpty,
)
from broker_ctl.lab.memory_store.transport import MemoryRequest
from broker_ctl.store.interface import Check, Create, Delete, Outcome, Versioned
from tests.deterministic.judges.observer import Observer
from tests.deterministic.world.cluster import Cluster

_DEFINITE = (BadVersion, NodeExists, NotEmpty)


def wrong_answers(cluster: Cluster) -> Iterator[str]:
    """What was answered is what was done, and once; looks at each write when it is settled."""
    for daemon in (*cluster.daemons, *cluster.former):
        for requests in (daemon.wire.requests, daemon.configuration_wire.requests):
            for request in [request for request in requests if request.future.done()]:
                del requests[request]
                if said := judge_answer(request, cluster.observer):
                    yield f"I4: {daemon.broker_id} {request.what}: {said}"


def judge_answer(request: MemoryRequest, observer: Observer) -> str | None:
    """What is wrong with it."""
    if request.executions > 1:
        return f"was applied {request.executions} times"
    changes = [op for op in request.operations if not isinstance(op, Check)]
    if request.future.cancelled() or not changes:
        return None
    error = request.future.exception()
    if isinstance(error, MultiFailed):
        error = error.cause
    # What it was done to may have gone since: then NoNode is true too.
    if isinstance(error, _DEFINITE) and request.executions:
        return f"was applied, and the answer is {error!r}"
    is_moot = all(isinstance(op, Delete) for op in changes)
    if error is None and not (request.executions or is_moot or _is_true(request, observer)):
        return "was not applied, and the answer is yes"
    return None


def _is_true(request: MemoryRequest, observer: Observer) -> bool:
    """Whether an answer may be yes although another's write, or none, is what it reports.

    It says that the outcome of one of several changes is unknown; or it shows the node that was to
    be created, and whose that is makes no difference. Then it must be the very node that another
    client made while the request was on its way: with the same data, which can have no id of a
    writer then, and without an owner. And it was all that was asked for: in a transaction it would
    vouch for the other changes.
    """
    outcomes: Sequence[Outcome] = request.future.result()
    if any(isinstance(outcome, Ambiguous) for outcome in outcomes):
        return True
    match request.operations, outcomes:
        case [Create() as wish], [Versioned() as node]:
            is_new = request.zxid_before < node.stat.czxid
            is_it = node.stat.version == 0 and (node.path, node.data) == (wish.path, wish.data)
            made = observer.ownerless.get(node.path, {})
            return is_new and is_it and made.get(node.stat.czxid) == wish.data
    return False
