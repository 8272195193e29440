"""Has a broker acquire a bundle that was unloaded for it, before a client's lookup places it.

The modular manager hands a destination out once, to the first lookup; a second one that arrives
before the destination has acquired the bundle is placed by load (Pulsar issue 24884). A lookup that
is sent to the destination as authoritative is not placed at all: that broker acquires the bundle
(docs: pulsar-placement). Such lookups, sent until one succeeds, leave clients no time in between.
"""

import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import NON_PERSISTENT, Topic, ring_hash
from broker_ctl.dataplane.pulsar.admin import PulsarAdmin, decoded
from broker_ctl.errors import BrokerCtlError, PeerUnreachable
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Between two lookups. An unload takes some hundred milliseconds; each lookup that comes too early
# is answered from the memory of the broker.
_PAUSE: Final = Backoff(first_s=0.04, factor=1.0, max_s=0.04)
# The chance that none of these names is in one of 10,000 equal bundles is 1 in 22,000.
_NAMES: Final = 100_000


@asynccontextmanager
async def claiming(
    admin: PulsarAdmin,
    bundle: Bundle,
    destination: str,
    check: Callable[[], None],
    *,
    rng: random.Random,
) -> AsyncIterator[None]:
    """Claim the bundle for ``destination`` during the block, in which it is unloaded.

    ``check`` raises when this process may not act any more.
    """
    topic = topic_in(bundle)
    if topic is None:
        yield
        return
    async with TaskScope(f"claim {bundle}") as tasks:
        tasks.start(_claim(admin, topic, destination, check, rng), "lookups")
        yield


async def _claim(
    admin: PulsarAdmin,
    topic: Topic,
    destination: str,
    check: Callable[[], None],
    rng: random.Random,
) -> None:
    async def look_up() -> None:
        check()
        await _acquire(admin, topic, destination)

    try:
        await retry(
            look_up,
            f"{destination} cannot acquire the bundle of {topic} yet",
            rng=rng,
            judge=is_any(PeerUnreachable),
            backoff=_PAUSE,
            level=logging.DEBUG,
        )
    except BrokerCtlError as error:
        log.debug("%s is not claimed for %s: %s", topic, destination, error)


async def _acquire(admin: PulsarAdmin, topic: Topic, broker_id: str) -> None:
    """Have a broker acquire the bundle of a topic, if nobody owns it.

    Raises:
        PeerUnreachable: another broker owns it still, or it is being unloaded.
        PeerRefused: the lookup is not allowed.
    """
    path = f"lookup/v2/topic/{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
    found = decoded(path, await admin.ask(path, broker_id, {"authoritative": "true"}))
    urls = {str(found.get(name) or "").rstrip("/") for name in ("httpUrl", "httpUrlTls")}
    if admin.url_of(broker_id) not in urls:
        raise PeerUnreachable(f"{path}: the owner is at {' or '.join(sorted(urls))}")


def topic_in(bundle: Bundle) -> Topic | None:
    """A topic of the bundle that need not exist, and that a lookup does not create.

    Pulsar cannot know whether a non-persistent topic exists, so it looks each one up.
    """
    for number in range(_NAMES):
        name = f"{NON_PERSISTENT}://{bundle.namespace}/broker-ctl-claim-{number}"
        if ring_hash(name) in bundle.range:
            return Topic.parse(name)
    return None
