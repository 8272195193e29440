"""The state machines, each as its rows, read from the table that the program runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.core.machines import election, lock, move, ownership, session, surge
from broker_ctl.core.partitions import values
from broker_ctl.core.planning import approval
from broker_ctl.core.rollout import broker_machine as rollout_broker
from broker_ctl.core.rollout import machine as rollout


@dataclass(frozen=True, slots=True)
class Row:
    """From state to state.

    Attributes:
        event: empty where the table only says which state may follow.
        actions: what is done, in order.
    """

    source: str
    event: str
    target: str
    actions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The event and what is done about it."""
        return f"{self.event} / {', '.join(self.actions)}" if self.actions else self.event


@dataclass(frozen=True, slots=True)
class Machine:
    """A table; its states in the order in which they were declared."""

    title: str
    states: tuple[str, ...]
    rows: tuple[Row, ...]


def _by_event(title: str, table: Mapping[tuple[Any, Any], Any]) -> Machine:
    rows = []
    for (source, event), found in table.items():
        target, actions = found if isinstance(found, tuple) else (found, ())
        rows.append(Row(str(source), str(event), str(target), tuple(map(str, actions))))
    return _machine(title, type(next(iter(table))[0]), rows)


def _by_successors(title: str, table: Mapping[Any, frozenset[Any]]) -> Machine:
    pairs = ((source, target) for source, targets in table.items() for target in sorted(targets))
    return _machine(title, type(next(iter(table))), (Row(str(a), "", str(b)) for a, b in pairs))


def _by_predecessors(title: str, table: Mapping[Any, frozenset[Any]]) -> Machine:
    pairs = ((source, target) for target, sources in table.items() for source in sorted(sources))
    return _machine(title, type(next(iter(table))), (Row(str(a), "", str(b)) for a, b in pairs))


def _machine(title: str, states: Any, rows: Iterator[Row] | list[Row]) -> Machine:
    order = tuple(map(str, states))
    by_source = sorted(rows, key=lambda row: order.index(row.source))
    return Machine(title, order, tuple(by_source))


# By the name that the directive is given.
MACHINES: Final[Mapping[str, Machine]] = {
    "session": _by_event("ZooKeeper session", session.TRANSITIONS),
    "lock": _by_event("Lock on an ephemeral node", lock.TRANSITIONS),
    "election": _by_event("Leader election", election.TRANSITIONS),
    "ownership": _by_successors("Ownership of a bundle", ownership.NEXT),
    "move": _by_event("Move of a bundle", move.TRANSITIONS),
    "surge": _by_event("Surge of traffic", surge.TRANSITIONS),
    "approval": _by_event("Approved plan", approval.TRANSITIONS),
    "rollout": _by_event("Rollout", rollout.TRANSITIONS),
    "rollout-broker": _by_event("Broker of a rollout", rollout_broker.TRANSITIONS),
    "replica": _by_predecessors("Replica of a partition", values.REPLICA_PREDECESSORS),
}
# Where the tables stand: a test finds every table of the core, and looks here.
TABLES: Final = frozenset(
    {
        *((module.__name__, "TRANSITIONS") for module in (session, lock, election, move, surge)),
        (approval.__name__, "TRANSITIONS"),
        (rollout.__name__, "TRANSITIONS"),
        (rollout_broker.__name__, "TRANSITIONS"),
        (ownership.__name__, "NEXT"),
        (values.__name__, "REPLICA_PREDECESSORS"),
    }
)
