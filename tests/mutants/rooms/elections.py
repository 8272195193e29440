"""Breaks of elections: epochs, terms, and what a deposed leader may still do."""

from typing import Final

from tests.mutants.mutant import Mutant, Replace, contract, plant, schedules, unit
from tests.mutants.rooms.ownership_tests import IN_OWNERSHIP

_ELECTION: Final = "coordination/election.py"
_NODE: Final = "coordination/election_node.py"
_LEADERSHIP: Final = "coordination/election.py"
_CONFIRMED: Final = "coordination/election.py"

_OWN: Final = unit("coordination/election")
_REAL: Final = contract("coordination/test_zookeeper.py")
_OBEYED: Final = unit("broker/ownership/test_command_handler.py", *IN_OWNERSHIP)
_LATE: Final = schedules(0, 64)

_UNGUARDED: Final = Replace(
    f"broker_ctl/{_LEADERSHIP}",
    "return Check(self.election_name.epoch_path, self.epoch)",
    'return Check("/")',
)
_UNCHECKED: Final = Replace(
    f"broker_ctl/{_CONFIRMED}", "return Check(self._path, epoch)", 'return Check("/")'
)

ELECTIONS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "drop-epoch-check",
        "I3",
        (_UNGUARDED, _UNCHECKED),
        (_OWN, _OBEYED, schedules()),
    ),
    Mutant(
        "leaders-write-unguarded",
        "I3",
        (_UNGUARDED,),
        (_OWN, unit("balancer/execution", "controller"), _LATE),
    ),
    Mutant("commands-write-unguarded", "I3", (_UNCHECKED,), (_OWN, _OBEYED, _LATE)),
    plant(
        "made-up-epochs-believed",
        "I3",
        _CONFIRMED,
        'raise Fenced(f"epoch {epoch} is unknown',
        'self.newest = epoch\n        return\n        raise Fenced(f"epoch {epoch} is unknown',
        _OWN,
        _OBEYED,
    ),
    plant(
        "older-epochs-obeyed",
        "I3",
        _CONFIRMED,
        "        if epoch < self.newest:\n            raise",
        "        if epoch < 0:\n            raise",
        _OWN,
        _OBEYED,
        _LATE,
    ),
    plant(
        "known-epochs-go-down",
        "I3",
        _CONFIRMED,
        "self.newest = max(self.newest, stat.version)",
        "self.newest = stat.version",
        _OWN,
        _OBEYED,
    ),
    plant(
        "ended-terms-decide",
        "I3",
        _LEADERSHIP,
        "        if self._phase is _Phase.ENDED:\n            raise",
        "        if self.epoch < 0:\n            raise",
        _OWN,
        unit("balancer", "controller"),
        _LATE,
    ),
    plant(
        "ended-terms-resume",
        "I3",
        _LEADERSHIP,
        "        if self._phase is not _Phase.ENDED:\n",
        "        if self.epoch >= 0:\n",
        _OWN,
        _LATE,
    ),
    plant(
        "suspended-leaders-decide",
        "I3",
        _LEADERSHIP,
        "            if self._phase is _Phase.DECIDING:\n",
        "            if self._phase is not _Phase.ENDED:\n",
        _OWN,
        unit("balancer", "controller"),
        _LATE,
    ),
    plant(
        "leaders-without-authority-decide",
        "I3",
        _LEADERSHIP,
        "        self._check_authority()\n",
        "",
        _OWN,
        _LATE,
    ),
    Mutant(
        "epoch-written-apart-from-the-leader",
        "I3",
        (
            Replace(
                f"broker_ctl/{_NODE}",
                "written, created = await self._store.multi(",
                "(written,) = await self._store.multi(",
            ),
            Replace(
                f"broker_ctl/{_NODE}",
                "                    SetData(self._election_name.epoch_path, claim, version),\n"
                "                    Create(",
                "                    SetData(self._election_name.epoch_path, claim, version),\n"
                "                ],\n"
                "            )\n"
                "            (created,) = await self._store.multi(\n"
                "                [\n"
                "                    Create(",
            ),
        ),
        (_OWN, _REAL, _LATE),
    ),
    plant(
        "another-node-is-led-under",
        "I3",
        _ELECTION,
        "if is_mine and self._czxid in {0, node.stat.czxid}\n",
        "if is_mine\n",
        _OWN,
        _LATE,
    ),
    plant(
        "terms-overlap",
        "I3",
        _ELECTION,
        "        await self._wait_work()\n        return self._has_authority and",
        "        return self._has_authority and",
        _OWN,
        _LATE,
    ),
    plant(
        "resigned-before-the-work-ends",
        "I3",
        _ELECTION,
        "                    await self._wait_work()\n",
        "",
        _OWN,
        _LATE,
    ),
    plant(
        "elected-without-authority",
        "I3",
        _ELECTION,
        "if claimed is None or not self._has_authority or self._cuts != cuts:",
        "if claimed is None:",
        _OWN,
        _LATE,
    ),
    plant(
        "resumed-without-sync",
        "I3",
        _ELECTION,
        "is_synced=before is ElectionState.SUSPENDED",
        "is_synced=False",
        _OWN,
        _LATE,
    ),
    plant(
        "resumed-by-an-answer-of-before",
        "I3",
        _ELECTION,
        "if self._state is not before or self._cuts != cuts:",
        "if self._state is not before:",
        _OWN,
        _LATE,
    ),
    plant(
        "lost-authority-leads-on",
        "I3",
        _ELECTION,
        "            self._on_event(ElectionEvent.AUTHORITY_LOST)\n",
        "            ...\n",
        _OWN,
        _LATE,
    ),
    plant(
        "lost-connection-leads-on",
        "I3",
        _ELECTION,
        "            self._on_event(ElectionEvent.CONNECTION_LOST)\n",
        "            ...\n",
        _OWN,
        _LATE,
    ),
    plant(
        "leaders-of-any-session",
        "I3",
        _NODE,
        "return node.stat.ephemeral_owner == self._store.session_id",
        "return node.stat.is_ephemeral",
        _OWN,
        _LATE,
    ),
)
