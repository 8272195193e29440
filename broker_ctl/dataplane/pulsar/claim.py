"""Has a broker acquire a bundle that was unloaded for it, before a client's lookup places it.

The modular manager hands a destination out once, to the first lookup; a second one that arrives
before the destination has acquired the bundle is placed by load (Pulsar issue 24884). A lookup that
is sent to the destination as authoritative is not placed at all: that broker acquires the bundle
(docs: pulsar-placement). Such lookups, sent until one succeeds, leave clients no time in between.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import NON_PERSISTENT, Topic, ring_hash
from broker_ctl.dataplane.pulsar.admin import PulsarAdmin, decoded
from broker_ctl.errors import BrokerCtlError, PeerUnreachable
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Between two lookups. An unload takes some hundred milliseconds; each lookup that comes too early
# is answered from the memory of the broker.
_PAUSE_S: Final = 0.02
# The chance that none of these names is in one of 10,000 equal bundles is 1 in 22,000.
_NAMES: Final = 100_000


@asynccontextmanager
async def claiming(
    admin: PulsarAdmin, bundle: Bundle, destination: str, check: Callable[[], None]
) -> AsyncIterator[None]:
    """Claim the bundle for ``destination`` during the block, in which it is unloaded.

    ``check`` raises when this process may not act any more.
    """
    topic = topic_in(bundle)
    if topic is None:
        yield
        return
    async with TaskScope(f"claim {bundle}") as tasks:
        tasks.start(_claim(admin, topic, destination, check), "lookups")
        yield


async def _claim(
    admin: PulsarAdmin, topic: Topic, destination: str, check: Callable[[], None]
) -> None:
    while True:
        try:
            check()
            if await _acquires(admin, topic, destination):
                return
        except PeerUnreachable as error:
            # While the owner closes it, every broker answers that it is being unloaded.
            log.debug("%s is not to be had for %s yet: %s", topic, destination, error)
        except BrokerCtlError as error:
            log.debug("%s is not claimed for %s: %s", topic, destination, error)
            return
        await asyncio.sleep(_PAUSE_S)


async def _acquires(admin: PulsarAdmin, topic: Topic, broker_id: str) -> bool:
    """Have a broker acquire the bundle of a topic, if nobody owns it; whether it owns it then."""
    path = f"lookup/v2/topic/{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
    found = decoded(path, await admin.ask(path, broker_id, {"authoritative": "true"}))
    urls = {str(found.get(name) or "").rstrip("/") for name in ("httpUrl", "httpUrlTls")}
    return admin.url_of(broker_id) in urls


def topic_in(bundle: Bundle) -> Topic | None:
    """A topic of the bundle that need not exist, and that a lookup does not create.

    Pulsar cannot know whether a non-persistent topic exists, so it looks each one up.
    """
    for number in range(_NAMES):
        name = f"{NON_PERSISTENT}://{bundle.namespace}/broker-ctl-claim-{number}"
        if ring_hash(name) in bundle.range:
            return Topic.parse(name)
    return None
