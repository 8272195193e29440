"""All that works in one leading on top of the engine."""

import random

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.procedures.controlled_shutdown import ControlledShutdowns
from broker_ctl.controller.procedures.preferred_election import PreferredLeaderElection
from broker_ctl.controller.procedures.procedure import ControllerContext, MakeOffice, Procedures
from broker_ctl.controller.procedures.reassignment import Reassignments
from broker_ctl.controller.procedures.topic_adoption import TopicAdoption
from broker_ctl.controller.procedures.topic_configuration import TopicConfiguration
from broker_ctl.controller.procedures.topic_creation import TopicCreation
from broker_ctl.controller.procedures.topic_deletion import TopicDeletions


def office_maker(broker_id: int, rng: random.Random) -> MakeOffice:
    """Opens an office in each leading of this broker; ``rng`` gives the ids of topics."""

    def make(parts: ControllerContext) -> Procedures:
        deletions, reassignments = TopicDeletions(parts), Reassignments(parts)
        preferred = PreferredLeaderElection(parts)
        desk = ControllerOperations(
            parts,
            broker_id,
            growth=TopicCreation(parts, rng),
            configuring=TopicConfiguration(parts),
            adopting=TopicAdoption(parts, deletions, rng),
            deletions=deletions,
            reassignments=reassignments,
            preferred=preferred,
            shutdowns=ControlledShutdowns(parts),
        )
        # Nothing is moved that is to be deleted.
        return Procedures((deletions, reassignments, preferred), desk)

    return make
