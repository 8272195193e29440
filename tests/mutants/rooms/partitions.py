"""Breaks of the partition controller and of replicas: terms, leader epochs, and the ISR."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, scenarios, schedules, unit

_ELECTIONS: Final = "core/partitions/elections.py"
_BATCH: Final = "controller/state/batch_writer.py"
_WRITER: Final = "controller/store/fenced_writer.py"
_ISR: Final = "broker/replicas/lifecycle.py"
_INSTRUCTIONS: Final = "broker/replicas/instructions.py"
_LEADER: Final = "lab/replication/leader.py"
_TABLE: Final = "lab/replication/plane.py"

_ELECTED: Final = unit("core/partitions")
_CONTROLLED: Final = unit("controller/store", "controller/state", "controller")
_REPLICAS: Final = unit("broker/replicas")
_LED: Final = unit("lab/replication")
_LATE: Final = schedules(0, 64)

PARTITIONS: Final[tuple[Mutant, ...]] = (
    # Elections.
    plant(
        "elect-anybody",
        "I9",
        _ELECTIONS,
        "    leader = _first(assignment.replicas, state.isr, live)\n",
        "    for replica in assignment.replicas[::-1]:\n"
        "        if replica in live:\n"
        "            return _changed(state, replica, (replica,), controller_epoch)\n"
        "    leader = _first(assignment.replicas, state.isr, live)\n",
        _ELECTED,
        schedules(),
    ),
    plant(
        "leader-epochs-stand",
        "I9",
        _ELECTIONS,
        "state.leader_epoch + 1",
        "state.leader_epoch",
        _ELECTED,
        _LATE,
    ),
    plant(
        "stopping-leaders-succeeded-by-anybody",
        "I9",
        _ELECTIONS,
        "if replica in live and replica not in leaving and replica in state.isr:",
        "if replica in live and replica not in leaving:",
        _ELECTED,
        _LATE,
    ),
    plant(
        "reassigned-to-those-behind",
        "I9",
        _ELECTIONS,
        "        if replica in live and replica in isr:\n            return replica",
        "        if replica in live:\n            return replica",
        _ELECTED,
        _LATE,
    ),
    plant(
        "unclean-everywhere",
        "I9",
        _ELECTIONS,
        "    if not rules.is_unclean_allowed:\n",
        "    if not rules:\n",
        _ELECTED,
        _LATE,
    ),
    plant(
        "the-dead-are-all-that-is-in-sync",
        "I9",
        _ELECTIONS,
        "if member not in gone]) or state.isr",
        "if member not in gone])",
        _ELECTED,
        _LATE,
    ),
    # The controller.
    plant(
        "unfenced-controller",
        "I3 I9",
        _WRITER,
        "        guarded = [self._leadership.guard, *operations]\n",
        "        return await self._store.multi(operations)\n"
        "        guarded = [self._leadership.guard, *operations]\n",
        _CONTROLLED,
        scenarios("test_controllers", "test_two_leaders"),
        schedules(),
    ),
    plant(
        "suspended-controller-writes",
        "I3",
        _WRITER,
        "            await self._leadership.wait_deciding()\n",
        "",
        _CONTROLLED,
        scenarios("test_controllers", "test_two_leaders"),
        _LATE,
    ),
    plant(
        "states-at-any-version",
        "I9",
        _BATCH,
        "SetData(path, encode_state(elected), version)",
        "SetData(path, encode_state(elected))",
        _CONTROLLED,
        _LATE,
    ),
    plant(
        "stopping-brokers-admitted",
        "I9",
        _BATCH,
        "    leaving, replicas = context.leaving, assignment.replicas\n    if not leaving:",
        "    leaving, replicas = context.leaving, assignment.replicas\n    if leaving or True:",
        _CONTROLLED,
        _LATE,
    ),
    # Replicas on their brokers.
    plant(
        "isr-at-any-version",
        "I9",
        _ISR,
        "await self._store.set(path, encode_state(new), state.version)",
        "await self._store.set(path, encode_state(new))",
        _REPLICAS,
        _LATE,
    ),
    plant(
        "isr-of-another-epoch",
        "I9",
        _ISR,
        "            and state.leader_epoch == proposal.leader_epoch\n"
        "            and state.version == proposal.version\n",
        "",
        _REPLICAS,
        _LATE,
    ),
    plant(
        "isr-of-another-leader",
        "I9",
        _ISR,
        "            state is not None\n"
        "            and state.leader == self._broker_id\n"
        "            and state.leader_epoch == proposal.leader_epoch\n"
        "            and state.version",
        "            state is not None\n"
        "            and state.leader_epoch >= proposal.leader_epoch\n"
        "            and state.version",
        _REPLICAS,
        _LATE,
    ),
    plant(
        "deposed-controllers-obeyed",
        "I3 I9",
        _INSTRUCTIONS,
        "        self._controller_epoch.require_newest("
        'instruction.controller_epoch, "controller epoch")\n',
        "",
        _REPLICAS,
        _LATE,
    ),
    plant(
        "instructions-of-an-earlier-registration",
        "I9",
        _INSTRUCTIONS,
        "if instruction.broker != self._broker_id or 0 < meant < own:",
        "if instruction.broker != self._broker_id:",
        _REPLICAS,
        _LATE,
    ),
    plant(
        "leaders-of-an-earlier-daemon-lead-on",
        "I9",
        _INSTRUCTIONS,
        "await self._end(left, is_deleted=False)\n",
        "()\n",
        _REPLICAS,
        _LATE,
    ),
    plant(
        "stopping-brokers-obey",
        "I9",
        _INSTRUCTIONS,
        "        if self.is_over:\n",
        "        if self.fenced < 0:\n",
        _REPLICAS,
        _LATE,
    ),
    # Leaders and followers.
    plant(
        "commit-alone",
        "I9",
        _LEADER,
        "[one for one in {*self.isr, *proposed} if one != self._broker_id]",
        "[]",
        _LED,
        schedules(7),
    ),
    plant(
        "proposed-members-not-counted",
        "I9",
        _LEADER,
        "proposed = () if self._proposal is None else self._proposal.isr",
        "proposed = ()",
        _LED,
        _LATE,
    ),
    plant(
        "superseded-leaders-commit",
        "I9",
        _LEADER,
        "if self.is_superseded or not self.has_enough_in_sync:",
        "if not self.has_enough_in_sync:",
        _LED,
        _LATE,
    ),
    plant(
        "too-few-commit",
        "I9",
        _LEADER,
        "if self.is_superseded or not self.has_enough_in_sync:",
        "if self.is_superseded:",
        _LED,
        _LATE,
    ),
    plant(
        "followers-join-behind",
        "I9",
        _LEADER,
        "self._followers[follower].end_offset >= least",
        "self._followers[follower].end_offset >= 0",
        _LED,
        _LATE,
    ),
    plant(
        "followers-join-below-the-start",
        "I9",
        _LEADER,
        "least = max(self._log.high_watermark, self.start_offset)",
        "least = self._log.high_watermark",
        _LED,
        _LATE,
    ),
    plant(
        "proposals-made-twice",
        "I9",
        _LEADER,
        "if self._proposal is None and not self.is_superseded:",
        "if not self.is_superseded:",
        _LED,
        _LATE,
    ),
    plant(
        "older-leader-epochs-obeyed",
        "I9",
        _TABLE,
        "elif instruction.state.leader_epoch < replica.leader_epoch:",
        "elif instruction.state.leader_epoch < 0:",
        _LED,
        _LATE,
    ),
    plant(
        "topics-of-another-id",
        "I9",
        _TABLE,
        "        elif replica.topic_id != topic_id:\n",
        "        elif not replica.topic_id:\n",
        _LED,
    ),
    plant(
        "deletions-of-another-id",
        "I9",
        _TABLE,
        "            if stop.topic_id != replica.topic_id:\n",
        "            if not stop.topic_id:\n",
        _LED,
    ),
)
