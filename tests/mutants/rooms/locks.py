"""Breaks of the ownership locks: whose node it is, how it is acquired, and how it goes."""

from typing import Final

from tests.mutants.mutant import Mutant, Replace, contract, plant, schedules, unit
from tests.mutants.rooms.ownership_tests import IN_OWNERSHIP

_LOCKS: Final = "coordination/locks.py"
_DELETIONS: Final = "coordination/bulk_acquire.py"
_MACHINE: Final = "core/machines/lock.py"

_OWN: Final = unit("coordination/locks")
_PURE: Final = unit("core/machines/test_lock_machine.py")
_USED: Final = unit("broker/ownership/test_acquire.py", "broker/ownership/test_release.py")
_REAL: Final = contract("coordination/test_zookeeper.py")
_LATE: Final = schedules(0, 64)

LOCKS: Final[tuple[Mutant, ...]] = (
    plant(
        "lock-known-by-session-alone",
        "I2 I3",
        "coordination/locks.py",
        "Identity(node.stat.czxid, node.stat.ephemeral_owner) == self.identity",
        "node.stat.ephemeral_owner == self.identity.session_id",
        _OWN,
        _USED,
        _LATE,
    ),
    plant(
        "lock-known-by-czxid-alone",
        "I2",
        "coordination/locks.py",
        "Identity(node.stat.czxid, node.stat.ephemeral_owner) == self.identity",
        "node.stat.czxid == self.identity.czxid",
        _OWN,
        _USED,
        _LATE,
    ).proven_equal(
        "a path has one node at each zxid, so the czxid of the node names its session too; the "
        "session is compared for the reader, and for servers that were restored from a copy"
    ),
    plant(
        "skip-ephemeral-owner",
        "I2 I5",
        _LOCKS,
        "                clearing = await self._prepare_retry(path, error.cause)\n",
        "                try:\n"
        "                    clearing = await self._prepare_retry(path, error.cause)\n"
        "                except LockBusy as busy:\n"
        "                    if busy.claim is not Claim.MY_EARLIER_SESSION:\n"
        "                        raise\n"
        "                    lock = self._held[path] = Lock(path, busy.node.stat, on_lost)\n"
        "                    return lock\n",
        _OWN,
        schedules(30),
    ),
    plant(
        "steal-nodes",
        "I5",
        _MACHINE,
        "if owner_broker == broker_id else Claim.OTHERS",
        "if owner_broker == broker_id else Claim.MINE",
        _PURE,
        _OWN,
        schedules(75),
    ),
    plant(
        "nodes-of-an-earlier-session-deleted",
        "I1a I2",
        _MACHINE,
        "return Claim.MY_EARLIER_SESSION if",
        "return Claim.MINE if",
        _PURE,
        _OWN,
        _LATE,
    ),
    Mutant(
        "own-nodes-adopted-with-their-token",
        "I2",
        (
            Replace(
                f"broker_ctl/{_LOCKS}",
                "        if claim is not Claim.MINE:\n            self._unconfirmed",
                "        if claim is Claim.MINE or claim:\n            self._unconfirmed",
            ),
            Replace(
                f"broker_ctl/{_LOCKS}",
                "                clearing = await self._prepare_retry(path, error.cause)\n",
                "                try:\n"
                "                    clearing = await self._prepare_retry(path, error.cause)\n"
                "                except LockBusy as busy:\n"
                "                    if busy.claim is not Claim.MINE:\n"
                "                        raise\n"
                "                    return self.adopt(busy.node, on_lost)\n",
            ),
        ),
        (_OWN, _USED, _LATE),
    ),
    plant(
        "adopted-after-the-session",
        "I2 I5",
        _LOCKS,
        "if node.stat.ephemeral_owner != self._store.session_id:",
        "if node.stat.ephemeral_owner == 1:",
        _OWN,
        _LATE,
    ),
    plant(
        "unheld-nodes-without-sync",
        "I8",
        _LOCKS,
        "        await self._store.sync(self._root)\n        found = paths",
        "        found = paths",
        _OWN,
        unit(*IN_OWNERSHIP),
        _REAL,
    ),
    plant(
        "release-of-any-node",
        "I3 I5",
        _LOCKS,
        "while lock.is_held_by(node := await self._store.get(lock.path)):",
        "while (node := await self._store.get(lock.path)) is not None:",
        _OWN,
        _USED,
        _LATE,
    ),
    plant(
        "release-without-its-guards",
        "I3",
        _LOCKS,
        "self._delete([*guards, Delete(lock.path, node.stat.version)])",
        "self._delete([Delete(lock.path, node.stat.version)])",
        _OWN,
        _USED,
        _LATE,
    ),
    plant(
        "acquired-without-its-guards",
        "I3 I5",
        _LOCKS,
        "self._store.multi([*guards, *clearing, create])",
        "self._store.multi([*guards[:0], *clearing, create])",
        _OWN,
        _USED,
        _LATE,
    ),
    plant(
        "acquired-together-without-guards",
        "I5",
        "coordination/bulk_acquire.py",
        "store.multi([*guards, *creates])",
        "store.multi([*guards[:0], *creates])",
        _OWN,
        unit("broker/ownership/test_reclaim.py"),
        _LATE,
    ),
    plant(
        "a-replaced-node-is-held-on",
        "I2 I5",
        _MACHINE,
        "(_S.VERIFYING, _E.OTHER): (_S.LOST, (_A.NOTIFY_LOST,))",
        "(_S.VERIFYING, _E.OTHER): (_S.HELD, ())",
        _PURE,
        _OWN,
        _LATE,
    ),
    plant(
        "a-deleted-node-is-held-on",
        "I2 I5",
        _MACHINE,
        "(_S.VERIFYING, _E.GONE): (_S.LOST, (_A.NOTIFY_LOST,))",
        "(_S.VERIFYING, _E.GONE): (_S.HELD, ())",
        _PURE,
        _OWN,
        _LATE,
    ),
    plant(
        "revalidated-without-sync",
        "I2 I6",
        "coordination/locks.py",
        "            await self._store.sync(self._root)\n",
        "",
        _OWN,
        _REAL,
        _LATE,
    ),
    # What is still to be deleted.
    plant(
        "deletion-of-any-node",
        "I8",
        _DELETIONS,
        "return stat.czxid == self.czxid",
        "return True",
        _OWN,
        _LATE,
    ),
    plant(
        "deletion-of-a-later-node",
        "I8",
        _DELETIONS,
        "return stat.czxid == self.czxid",
        "return stat.czxid >= self.czxid",
        _OWN,
        _LATE,
    ),
    plant(
        "deletion-of-any-session",
        "I8",
        _DELETIONS,
        "return stat.ephemeral_owner == self.session_id",
        "return True",
        _OWN,
        unit("coordination/election", "coordination/membership"),
        _LATE,
    ),
    plant(
        "deletion-without-sync",
        "I8",
        _DELETIONS,
        "        await self._store.sync(path)\n",
        "",
        _OWN,
        _LATE,
    ),
    plant(
        "deletion-at-any-version",
        "I8",
        _DELETIONS,
        "await self._store.delete(path, stat.version)",
        "await self._store.delete(path)",
        _OWN,
        _LATE,
    ),
    plant(
        "failed-deletion-forgotten",
        "I8",
        "broker/ownership/release.py",
        "            self._deletions.add(lock.path, lock.identity.czxid)\n"
        "            self._owned_bundles.discard(held)\n",
        "            self._owned_bundles.discard(held)\n",
        _USED,
        unit(*IN_OWNERSHIP),
        _LATE,
    ),
)
