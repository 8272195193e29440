"""Builds the procedures and the admin of one controller term."""

import random

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.procedures.controlled_shutdown import ControlledShutdowns
from broker_ctl.controller.procedures.preferred_election import PreferredLeaderElection
from broker_ctl.controller.procedures.procedure import (
    BuildProcedures,
    ControllerContext,
    Procedures,
)
from broker_ctl.controller.procedures.reassignment import Reassignments
from broker_ctl.controller.procedures.topic_adoption import TopicAdoption
from broker_ctl.controller.procedures.topic_configuration import TopicConfiguration
from broker_ctl.controller.procedures.topic_creation import TopicCreation
from broker_ctl.controller.procedures.topic_deletion import TopicDeletions


def procedure_builder(broker_id: int, rng: random.Random) -> BuildProcedures:
    """Build the procedures of each term of this broker; ``rng`` is for the ids of topics."""

    def make(controller: ControllerContext) -> Procedures:
        deletions, reassignments = TopicDeletions(controller), Reassignments(controller)
        preferred = PreferredLeaderElection(controller)
        admin = ControllerOperations(
            controller,
            broker_id,
            creation=TopicCreation(controller, rng),
            configuration=TopicConfiguration(controller),
            adoption=TopicAdoption(controller, deletions, rng),
            deletions=deletions,
            reassignments=reassignments,
            preferred=preferred,
            shutdowns=ControlledShutdowns(controller),
        )
        # Nothing is moved that is to be deleted.
        return Procedures((deletions, reassignments, preferred), admin)

    return make
