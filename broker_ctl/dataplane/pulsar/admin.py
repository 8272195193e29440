"""Client of the admin API of a Pulsar cluster (docs: pulsar-admin-api).

Everything goes over the admin API: the cluster's own nodes are never written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

from broker_ctl.codec import decode_object
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.bundle import Bundle, BundleRange
from broker_ctl.core.model.names import Topic
from broker_ctl.core.model.web_address import AllowedHosts, is_broker_id
from broker_ctl.dataplane.pulsar.cluster_balancer import KEYS, Automatism, judge
from broker_ctl.dataplane.pulsar.link import AdminLink, Request
from broker_ctl.errors import CorruptRecord, HttpError, InvalidName, PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.peer_http import PeerAddresses, Source

log = logging.getLogger(__name__)

_CONFIGURATION: Final = "brokers/configuration"
# Number of brokers that are asked concurrently.
_AT_ONCE: Final = 8


class PulsarAdmin:
    """The admin API of one cluster.

    Args:
        urls: web addresses of the admin API; https if the brokers are to be reached over TLS.
        http: carries the token, the deadline of a question, and TLS; closed by its owner.
        brokers: who lives now, by broker id.
        act_timeout_s: deadline of an unload or a split: longer than the cluster's own.
        allowed_hosts: hosts to which the token goes where ``brokers`` names them; empty: those of
            ``urls`` and of their domains.
        addresses: counts the addresses that are refused; None: they are counted by this object.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        http: HttpClient,
        brokers: Callable[[], Mapping[str, BrokerUrls]],
        *,
        act_timeout_s: float,
        allowed_hosts: tuple[str, ...] = (),
        addresses: PeerAddresses | None = None,
    ) -> None:
        allowed = AllowedHosts.parse(allowed_hosts)
        if not allowed_hosts:
            allowed = AllowedHosts.around(urlsplit(url).hostname or "" for url in urls)
        shared = PeerAddresses() if addresses is None else addresses
        self._bounds = shared.limited_to(allowed, "pulsarAdminAllowedHosts")
        self._is_tls = urls[0].startswith("https:")
        self._brokers = brokers
        self._act_timeout_s = act_timeout_s
        # Names that it listed for brokers, and that are none.
        self.corrupt = 0
        self._link = AdminLink(urls, http, self._addresses)

    # Brokers and the leader.

    async def brokers(self) -> tuple[str, ...]:
        """Ids of the live brokers, sorted; what is not host:port is left out, and counted."""
        found = await self._texts("brokers")
        ids = sorted(filter(is_broker_id, found))
        if len(ids) < len(found):
            self.corrupt += len(found) - len(ids)
            log.warning("the admin API lists %d brokers without host:port", len(found) - len(ids))
        return tuple(ids)

    async def leader(self) -> str | None:
        """Web address of the leading broker; None while no broker leads."""
        try:
            reply = await self._link.ask("brokers/leaderBroker")
        except PeerRefused as error:
            if error.kind == "NotFound":
                return None
            raise
        with _reading("brokers/leaderBroker"):
            return str(decode_object(reply.body)["serviceUrl"])

    async def health(self, broker_id: str) -> None:
        """Have a broker write a message and read it.

        Raises:
            PeerUnreachable, PeerRefused: the broker failed; says why.
        """
        await self._link.ask("brokers/health", at=self.url_of(broker_id))

    async def is_healthy(self, broker_id: str) -> bool:
        """Whether a broker could write a message and read it just now."""
        try:
            await self.health(broker_id)
        except (PeerUnreachable, PeerRefused):
            return False
        return True

    async def ask(
        self, path: str, broker_id: str | None = None, query: Mapping[str, str] | None = None
    ) -> HttpReply:
        """A read, at any broker that answers, or at this one.

        Raises:
            PeerRefused: the cluster refused. PeerUnreachable: there was no answer.
        """
        at = None if broker_id is None else self.url_of(broker_id)
        return await self._link.ask(path, query, at)

    async def bundle_of(self, topic: Topic) -> Bundle:
        """The bundle of a topic, as the cluster itself resolves it."""
        path = f"{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
        reply = await self._link.ask(f"lookup/v2/topic/{path}/bundle")
        with _reading("bundle"):
            return Bundle(topic.namespace, BundleRange.parse(reply.body.decode()))

    # Acts.

    async def unload(self, bundle: Bundle, destination: str) -> None:
        """Have the owner unload a bundle, which the broker ``destination`` is to acquire.

        The answer does not say where the bundle is now: its owner node does.

        Raises:
            PeerRefused: the cluster refused, with its reason; nothing was done.
            PeerUnreachable: there was no answer, or one that does not say whether it was executed.
        """
        path = f"namespaces/{bundle.namespace}/{bundle.range}/unload"
        query = {"destinationBroker": destination}
        await self._link.order(Request("PUT", path, query, timeout_s=self._act_timeout_s))

    async def split(self, bundle: Bundle, algorithm: str, boundaries: tuple[int, ...]) -> None:
        """Have the owner split a bundle without unloading the children; raises as `unload`.

        ``algorithm`` is Pulsar's name; ``boundaries`` are for ``specified_positions_divide`` only.
        """
        path = f"namespaces/{bundle.namespace}/{bundle.range}/split"
        query = {"unload": "false", "splitAlgorithmName": algorithm}
        positions = list(boundaries) or None
        await self._link.order(Request("PUT", path, query, positions, self._act_timeout_s))

    # Configuration.

    async def dynamic_names(self) -> frozenset[str]:
        """Keys of the dynamic configuration."""
        return frozenset(await self._texts(_CONFIGURATION))

    async def overrides(self) -> Mapping[str, str]:
        """Overrides of the dynamic configuration, by key."""
        reply = await self._link.ask(f"{_CONFIGURATION}/values")
        with _reading(f"{_CONFIGURATION}/values"):
            return {key: str(value) for key, value in decode_object(reply.body).items()}

    async def override(self, key: str, value: str) -> None:
        """Override a key at run time, at all brokers; each applies it when its watch has fired."""
        steps = "/".join(quote(step, safe="") for step in (key, value))
        await self._link.order(Request("POST", f"{_CONFIGURATION}/{steps}"))

    async def drop_override(self, key: str) -> None:
        """Remove the override of a key: all brokers return to its value at their start."""
        await self._link.order(Request("DELETE", f"{_CONFIGURATION}/{quote(key, safe='')}"))

    async def running(self, broker_id: str) -> Mapping[str, str]:
        """Runtime values of the keys that affect balancing, at one broker."""
        reply = await self._link.ask(f"{_CONFIGURATION}/runtime", at=self.url_of(broker_id))
        with _reading(f"{_CONFIGURATION}/runtime"):
            values = decode_object(reply.body)
            return {key: str(values[key]) for key in sorted(KEYS & values.keys())}

    async def all_running(self) -> Mapping[str, Mapping[str, str]]:
        """As `running`, of all live brokers.

        Raises:
            PeerUnreachable: a broker does not answer, or no broker is alive.
        """
        turn = asyncio.Semaphore(_AT_ONCE)
        found: dict[str, Mapping[str, str]] = {}
        failures: list[str] = []

        async def ask(broker_id: str) -> None:
            async with turn:
                try:
                    found[broker_id] = await self.running(broker_id)
                except (PeerUnreachable, PeerRefused) as error:
                    failures.append(str(error))

        async with asyncio.TaskGroup() as tasks:
            for broker_id in self._brokers():
                tasks.create_task(ask(broker_id), name=f"configuration of {broker_id}")
        if failures:
            raise PeerUnreachable(f"what brokers run with is not known: {'; '.join(failures)}")
        if not found:
            raise PeerUnreachable("no broker is registered")
        return found

    async def cluster_balancer(self) -> tuple[Automatism, ...]:
        """Parts of the cluster's balancer that are on; none: all of it is off.

        Raises:
            PeerUnreachable: a broker does not answer, and its balancer may be on.
            PeerRefused: the settings of the cluster cannot be read.
        """
        return judge(await self.all_running(), await self.dynamic_names())

    async def _texts(self, path: str) -> list[str]:
        reply = await self._link.ask(path)
        with _reading(path):
            texts = reply.json()
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ValueError("no list of texts")
            return texts

    def _addresses(self) -> list[str]:
        bound = (
            self._bounds.bind(broker_id, self._of_scheme(urls), Source.PULSAR)
            for broker_id, urls in self._brokers().items()
        )
        return [url for urls in bound if (url := urls.web_url_tls or urls.web_url)]

    def url_of(self, broker_id: str) -> str:
        """Where a broker is asked.

        Raises:
            PeerUnreachable: it has no address, or one to which the token must not go.
        """
        urls = self._brokers().get(broker_id)
        own = None if urls is None else self._of_scheme(replace(urls, broker_id=broker_id))
        if own is None or not (own.web_url or own.web_url_tls):
            raise PeerUnreachable(f"{broker_id} is not registered with a web address")
        try:
            return self._bounds.url_of(own, Source.PULSAR)
        except HttpError as error:
            raise PeerUnreachable(str(error)) from error

    def _of_scheme(self, urls: BrokerUrls) -> BrokerUrls:
        """The addresses of the scheme of the admin URL."""
        if self._is_tls:
            return replace(urls, web_url=None)
        return replace(urls, web_url_tls=None)


def decoded(what: str, reply: HttpReply) -> dict[str, Any]:
    """An answer that is an object.

    Raises:
        PeerUnreachable: it is not.
    """
    with _reading(what):
        return decode_object(reply.body)


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Names the request whose answer is malformed."""
    try:
        yield
    except (CorruptRecord, HttpError, InvalidName, KeyError, ValueError) as error:
        raise PeerRefused("MalformedAnswer", f"{what}: {error}") from error
