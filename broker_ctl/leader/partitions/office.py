"""All that works in one leading on top of the engine."""

import random

from broker_ctl.leader.partitions.adopting import Adopting
from broker_ctl.leader.partitions.configuring import Configuring
from broker_ctl.leader.partitions.deletions import Deletions
from broker_ctl.leader.partitions.desk import Desk
from broker_ctl.leader.partitions.growth import Growth
from broker_ctl.leader.partitions.preferred import Preferred
from broker_ctl.leader.partitions.procedures import Controlled, MakeOffice, Office
from broker_ctl.leader.partitions.reassignments import Reassignments
from broker_ctl.leader.partitions.shutdowns import Shutdowns


def office_maker(broker_id: int, draws: random.Random) -> MakeOffice:
    """Opens an office in each leading of this broker; ``draws`` gives the ids of topics."""

    def make(parts: Controlled) -> Office:
        deletions, reassignments = Deletions(parts), Reassignments(parts)
        preferred = Preferred(parts)
        desk = Desk(
            parts,
            broker_id,
            growth=Growth(parts, draws),
            configuring=Configuring(parts),
            adopting=Adopting(parts, deletions, draws),
            deletions=deletions,
            reassignments=reassignments,
            preferred=preferred,
            shutdowns=Shutdowns(parts),
        )
        # Nothing is moved that is to be deleted.
        return Office((deletions, reassignments, preferred), desk)

    return make
