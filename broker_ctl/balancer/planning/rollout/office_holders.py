"""Who holds the elected offices; a rollout restarts them last."""

import logging

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.core.rollout.order import Seats
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import ControllerRecord

log = logging.getLogger(__name__)


async def find_seats(dependencies: BalancerDependencies) -> Seats:
    """This leader, and the controller by its node.

    Raises:
        StoreError: the node could not be read.
    """
    node = await dependencies.store.get(paths.CONTROLLER_ELECTION.node_path)
    if node is None:
        return Seats(dependencies.own_id)
    try:
        controller = ControllerRecord.decode(node.path, node.data).daemon
    except CorruptRecord as error:
        log.warning("the order of the rollout ignores the controller: %s", error)
        return Seats(dependencies.own_id)
    return Seats(dependencies.own_id, controller)
