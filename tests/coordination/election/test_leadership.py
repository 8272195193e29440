"""One leadership: whether its holder may decide."""

import pytest

from broker_ctl.coordination.election import Leadership
from broker_ctl.errors import AuthorityLost
from broker_ctl.store.paths import LOADBALANCE_ELECTION


def lapsed() -> None:
    raise AuthorityLost("the lease has run out")


async def test_without_authority_nothing_is_decided() -> None:
    leadership = Leadership(LOADBALANCE_ELECTION, 3, lapsed)
    with pytest.raises(AuthorityLost, match="the lease has run out"):
        leadership.check()
    with pytest.raises(AuthorityLost, match="the lease has run out"):
        await leadership.wait_deciding()


async def test_one_that_has_ended_never_resumes() -> None:
    leadership = Leadership(LOADBALANCE_ELECTION, 3, lambda: None)
    leadership.end()
    leadership.resume()
    with pytest.raises(AuthorityLost, match="not led from here at epoch 3"):
        leadership.check()
