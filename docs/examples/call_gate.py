"""What a broker process keeps of its calls: promise 5 of `wire`, 6 of `replica_wire`.

``instance_id`` and ``call`` decide where a call arrives late. A body without them is not judged.
"""

from collections.abc import Collection, Mapping
from typing import Any

from broker_ctl.core.model.names import Bundle
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.bundles.bundle_table import TokenMap
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import DataPlaneFenced


class MeantForAnother(Exception):
    """The call names another instance: 412."""


class CallGate:
    """Of one instance, from its start on.

    Attributes:
        ended: how many calls of daemons of before were refused; by whether the later daemon had
            called for more than to attach.
    """

    def __init__(self, instance_id: str) -> None:
        self.ended = {True: 0, False: 0}
        self._instance_id = instance_id
        self._attached = 0
        # The newest daemon that was heard: whatever one before it has sent comes too late.
        self._newest = 0
        self._is_called = False
        # For every hash the highest number that was taken, as it is with tokens.
        self._hashes = TokenMap()
        self._partitions: dict[TopicPartition, int] = {}

    def attach(self, body: Mapping[str, Any]) -> dict[str, int]:
        """A daemon may count from here, higher than all before it; with a number, it does.

        Raises:
            DataPlaneFenced: a later daemon was heard. ValueError: no number.
        """
        if wire.CALL in body:
            return {wire.FIRST_CALL: self._number(body)}
        self._attached += 1
        return {wire.FIRST_CALL: self._attached * wire.CALLS_OF_A_DAEMON}

    def check_instance(self, body: Mapping[str, Any]) -> None:
        """Refuse what another instance was to do.

        Raises:
            MeantForAnother: see above. ValueError: no instance id.
        """
        if wire.INSTANCE_ID not in body:
            return
        meant_for = wire.field(body, wire.INSTANCE_ID, str)
        if meant_for != self._instance_id:
            raise MeantForAnother(f"this is {self._instance_id}, not {meant_for:.80}")

    def admit(self, body: Mapping[str, Any], *bundles: Bundle) -> None:
        """Take a call, unless a later one was taken for a hash of any bundle.

        Raises:
            DataPlaneFenced: see above. ValueError: no number.
        """
        if wire.CALL not in body:
            return
        number = self._number(body)
        for bundle in bundles:
            if number < (highest := self._hashes.highest(bundle)):
                raise DataPlaneFenced(f"{bundle}: call {number} comes after call {highest}")
        for bundle in bundles:
            self._hashes.remember(bundle, number)

    def admit_replicas(
        self,
        body: Mapping[str, Any],
        named: Collection[TopicPartition],
        held: Collection[TopicPartition],
    ) -> None:
        """The same of partitions; only those that are held are remembered.

        Raises:
            DataPlaneFenced: a later call was taken. ValueError: no number.
        """
        self._partitions = {one: n for one, n in self._partitions.items() if one in held}
        if wire.CALL not in body:
            return
        number = self._number(body)
        for partition in named:
            if number < (highest := self._partitions.get(partition, 0)):
                raise DataPlaneFenced(f"{partition}: call {number} comes after call {highest}")
        self._partitions.update(dict.fromkeys(named, number))

    def _number(self, body: Mapping[str, Any]) -> int:
        """Of a call of the newest daemon that was heard.

        Raises:
            DataPlaneFenced: a later daemon was heard. ValueError: no number.
        """
        number = wire.count(body, wire.CALL)
        daemon = number // wire.CALLS_OF_A_DAEMON
        if daemon < self._newest:
            self.ended[self._is_called] += 1
            raise DataPlaneFenced(f"call {number} is of a daemon before the one that is heard now")
        self._newest = daemon
        self._is_called = number % wire.CALLS_OF_A_DAEMON > 0
        return number
