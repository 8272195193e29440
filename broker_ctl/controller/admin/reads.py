"""What operators ask about topics and partitions, answered at once from memory."""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.controller.admin import views
from broker_ctl.controller.procedures.known_names import check_partition, check_topic
from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions.names import TopicPartition

# Transitions of a partition that its explanation has.
_EXPLAINED: Final = 10


class ControllerReads:
    """Reads of one term of the controller; answers are plain JSON values."""

    def __init__(self, controller: ControllerContext) -> None:
        self._controller = controller
        self._context = controller.context

    def describe(self, topic: str) -> Mapping[str, Any]:
        """A topic, partition by partition; see `views.description`.

        Raises:
            TopicMissing: there is no such topic.
        """
        check_topic(self._context, topic)
        return views.description(self._context, topic)

    def explain(self, topic: str, partition: int) -> Reply:
        """Why a partition has its leader, with its newest transitions; see `views.explanation`.

        Raises:
            TopicMissing: there is no such partition.
        """
        named = TopicPartition(topic, partition)
        check_partition(self._context, named)
        changes = self.transitions(topic, partition, _EXPLAINED)
        return {**views.explanation(self._context, named), "changes": changes}

    def reassignments(self) -> list[dict[str, Any]]:
        """The partitions being reassigned; see `views.reassignment_row`."""
        moving = sorted(self._context.reassigning)
        return [views.reassignment_row(self._context, each) for each in moving]

    def transitions(
        self, topic: str | None, partition: int | None, limit: int
    ) -> list[dict[str, Any]]:
        """Transitions of this daemon's terms, newest first; None selects all."""
        newest = self._controller.recent.newest(topic, partition, limit)
        return [views.transition_row(*each) for each in newest]
