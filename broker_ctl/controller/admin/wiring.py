"""All that works in one leading on top of the engine."""

import random

from broker_ctl.controller.admin.operations import Desk
from broker_ctl.controller.procedures.controlled_shutdown import Shutdowns
from broker_ctl.controller.procedures.preferred_election import Preferred
from broker_ctl.controller.procedures.procedure import Controlled, MakeOffice, Office
from broker_ctl.controller.procedures.reassignment import Reassignments
from broker_ctl.controller.procedures.topic_adoption import Adopting
from broker_ctl.controller.procedures.topic_configuration import Configuring
from broker_ctl.controller.procedures.topic_creation import Growth
from broker_ctl.controller.procedures.topic_deletion import Deletions


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
