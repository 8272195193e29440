"""What batches tell of themselves (reference: metadata-store 1.7)."""

from collections.abc import Iterable, Sequence

from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.entries import Entry


class Meter:
    """The series of one store, bound to its name once."""

    def __init__(self, instruments: StoreInstruments, name: str) -> None:
        self._queue_wait = instruments.queue_wait_ms.labelled(name)
        self._execute = instruments.execute_ms.labelled(name)
        self._batch_size = instruments.batch_size.labelled(name)
        self._latency = {
            (kind, is_success): instruments.latency_ms.labelled(
                name, kind, "success" if is_success else "fail"
            )
            for kind in ("get", "put", "del")
            for is_success in (True, False)
        }
        self._put_bytes = instruments.put_bytes
        self._rollbacks = instruments.multi_rollbacks
        self._name = name

    def sent(self, batch: Sequence[Entry], now_s: float) -> None:
        """A batch leaves."""
        self._batch_size.observe(len(batch))
        self._queue_wait.observe_many([(now_s - entry.made_s) * 1000 for entry in batch])

    def handed_over(self, took_s: float) -> None:
        """How long it took to hand a batch to the connection."""
        self._execute.observe(took_s * 1000)

    def answered(self, kind: str, entries: Iterable[Entry], now_s: float) -> None:
        """Requests of one kind have their answers."""
        waits = [(now_s - entry.made_s) * 1000 for entry in entries]
        self._latency[kind, True].observe_many(waits)

    def failed(self, kind: str, entry: Entry, now_s: float) -> None:
        """A request ended in an error."""
        self._latency[kind, False].observe((now_s - entry.made_s) * 1000)

    def wrote(self, size_bytes: int) -> None:
        """Values were written."""
        self._put_bytes.add(self._name, amount=size_bytes)

    def rolled_back(self) -> None:
        """A batch was refused because of one of its writes."""
        self._rollbacks.add(self._name)
