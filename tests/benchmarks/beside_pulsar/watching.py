"""An observer of the owner nodes, which does not ask the balancers."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from broker_ctl.codec import decode_object
from broker_ctl.core.model.broker import broker_id_of
from broker_ctl.core.model.names import Bundle
from tests.benchmarks.beside_pulsar.figures import Owner, Sample
from tests.benchmarks.beside_pulsar.load import CALM, HOT

_PERIOD_S: Final = 0.5


class Observer:
    """Samples of all owner nodes, twice a second."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self.samples: list[Sample] = []

    def owners(self) -> dict[Bundle, Owner]:
        """The owner of each bundle now."""
        found = {}
        for namespace in (HOT, CALM):
            for name in self._children(f"/namespace/{namespace}"):
                bundle = Bundle.parse(f"{namespace}/{name}")
                try:
                    data, stat = self._client.get(f"/namespace/{bundle}")
                except NoNodeError:
                    continue
                broker_id = broker_id_of(decode_object(data)["httpUrl"])
                found[bundle] = Owner(broker_id, stat.czxid)
        return found

    def keep_looking(self, ended: threading.Event) -> None:
        while not ended.wait(_PERIOD_S):
            self.samples.append(Sample(time.monotonic(), self.owners()))

    def _children(self, path: str) -> list[str]:
        try:
            return self._client.get_children(path)
        except NoNodeError:
            return []


@contextmanager
def observing(zookeeper: str) -> Iterator[Observer]:
    """An observer in a thread of its own."""
    client = KazooClient(zookeeper)
    client.start()
    ended = threading.Event()
    observer = Observer(client)
    thread = threading.Thread(target=observer.keep_looking, args=(ended,), name="observer")
    thread.start()
    try:
        yield observer
    finally:
        ended.set()
        thread.join()
        client.stop()
        client.close()
