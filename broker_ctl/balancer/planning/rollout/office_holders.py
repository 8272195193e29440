"""Who holds the elected offices; a rollout restarts them last."""

import logging
from collections.abc import Callable

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.core.rollout.order import Seats
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.records.partitions import ControllerRecord

log = logging.getLogger(__name__)


async def find_seats(dependencies: BalancerDependencies) -> Seats:
    """The leader of the bundles and the controller.

    The former is this process, unless it balances a cluster of others from outside.

    Raises:
        StoreError: a node could not be read.
    """
    leader, controller = await dependencies.store.get_many(
        [paths.LOADBALANCE_ELECTION.node_path, paths.CONTROLLER_ELECTION.node_path]
    )
    own_id = dependencies.own_id
    is_broker = dependencies.registry.peer(own_id) is not None
    return Seats(
        own_id if is_broker else _holder(leader, _decode_leader),
        _holder(controller, lambda node: ControllerRecord.decode(node.path, node.data).daemon),
    )


def _decode_leader(node: Versioned) -> str:
    return LeaderBroker.decode(node.path, node.data).broker_id


def _holder(node: Versioned | None, decode: Callable[[Versioned], str]) -> str:
    try:
        return "" if node is None else decode(node)
    except CorruptRecord as error:
        log.warning("the order of the rollout ignores an elected broker: %s", error)
        return ""
