"""A bundle is served under its own lock and under no other."""

import pytest

from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.coordination.locks import Lock
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import NotOwner
from broker_ctl.store import paths
from broker_ctl.store.interface import Stat

ONE = Bundle.parse("public/default/0x00000000_0x80000000")
OTHER = Bundle.parse("public/default/0x80000000_0xffffffff")


def lock_of(bundle: Bundle) -> Lock:
    return Lock(paths.ownership(bundle), Stat(5, 5, 0, 0, 0, 0, 0, 7, 0, 0, 5), print)


def test_a_bundle_is_held_by_a_lock_on_its_own_node() -> None:
    held = OwnedBundle(ONE)
    lock = lock_of(ONE)
    assert held.hold(lock) is lock
    assert held.token == 5


def test_the_lock_of_another_bundle_gives_it_no_token() -> None:
    held = OwnedBundle(ONE)
    with pytest.raises(NotOwner, match="0x80000000_0xffffffff"):
        held.hold(lock_of(OTHER))
    assert held.lock is None
    assert held.token == 0
