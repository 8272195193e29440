"""A few schedules of recipes; `world.run` plays any other."""

import pytest

from tests.zookeeper.schedules.world import run


# 244: a create was made again in the next session, and its node stayed in line for ever.
@pytest.mark.parametrize("seed", [*range(12), 244])
def test_recipes_keep_their_promises_whatever_fails(seed: int) -> None:
    world = run(seed)
    assert world.locks["/lock"].newest_token
    assert world.claimed.done
