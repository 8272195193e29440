"""What both lanes use."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.store.batching.backpressure import Backpressure
from broker_ctl.store.batching.batch_metrics import BatchMetrics
from broker_ctl.store.batching.entries import Entry
from broker_ctl.store.batching.rules import BatchRules
from broker_ctl.store.interface import BulkStore
from broker_ctl.tasks import TaskScope


@dataclass(frozen=True, slots=True)
class Parts:
    """One of each for a `BatchedStore`."""

    store: BulkStore
    rules: BatchRules
    clock: Clock
    tasks: TaskScope
    waiting: Backpressure
    metrics: BatchMetrics | None

    def deadline_s(self, batch: Iterable[Entry]) -> float:
        """When the oldest of a batch must have ended, on the loop's clock."""
        waited_s = self.clock.now_s() - min(entry.made_s for entry in batch)
        left_s = self.rules.operation_timeout_s - waited_s
        return asyncio.get_running_loop().time() + left_s
