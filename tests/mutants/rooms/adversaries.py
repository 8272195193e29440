"""Breaks that an adversary of the suites was made for: with the mend out it finds them."""

from typing import Final

from tests.mutants.mutant import Mutant, Replace, plant, scenarios, unit

_LOST: Final = scenarios("test_lost_nodes")

ADVERSARIES: Final[tuple[Mutant, ...]] = (
    Mutant(
        "numbers-of-requests-begin-again-on-each-connection",
        "I1a I2 I4",
        (
            Replace(
                "broker_ctl/store/zookeeper/session.py",
                "xids=self._xids,",
                "xids=Xids(),",
            ),
            Replace(
                "broker_ctl/lab/memory_store/session.py",
                "            self._xids,\n",
                "            Xids(),\n",
            ),
        ),
        (unit("store/zookeeper/test_xids.py"), scenarios("test_held_acknowledgements")),
    ),
    plant(
        "nodes-of-another-life-deleted",
        "I2 I7",
        "coordination/locks.py",
        "        if node.stat.ephemeral_owner == self._store.session_id:\n            # A node",
        "        if node.path:\n            # A node",
        scenarios("test_second_lives"),
    ),
    plant(
        "ring-made-again-without-the-owned",
        "I5",
        "broker/namespaces/namespaces.py",
        "        owned = await self._owned(namespace)\n        if owned:\n",
        "        owned = await self._owned(namespace)\n"
        "        if owned and not local.boundaries:\n",
        _LOST,
    ),
    plant(
        "epoch-of-any-node-of-its-name",
        "I3 I6",
        "coordination/election.py",
        "        if stat.czxid > self._czxid:\n",
        "        if not self._czxid:\n",
        unit("coordination/election/test_confirmed_epoch.py"),
        _LOST,
    ),
    plant(
        "epoch-refused-without-a-look",
        "I3 I6",
        "coordination/election.py",
        "        if epoch == self.newest:\n",
        "        if epoch <= self.newest:\n",
        unit("coordination/election/test_confirmed_epoch.py"),
        _LOST,
    ),
)
