"""Client of the admin API of a Pulsar cluster, over any of its brokers (docs: pulsar-admin-api)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin, urlsplit

from broker_ctl.attach.cluster_balancer import KEYS, Automatism, judge
from broker_ctl.codec import decode, decode_object
from broker_ctl.core.model.broker import AllowedHosts, BrokerUrls, is_broker_id
from broker_ctl.core.model.names import Bundle, BundleRange, Topic
from broker_ctl.errors import (
    CorruptRecord,
    HttpError,
    InvalidName,
    PeerError,
    PeerRefused,
    PeerUnreachable,
)
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.peer_http import AddressSource, PeerAddresses

log = logging.getLogger(__name__)

# Sends admin requests to a Pulsar cluster, over any of its brokers.
#
# Any broker accepts any request, and redirects the caller to the broker that must carry it out:
# an unload with a destination to the leader, which redirects to the owner; a split to the owner
# (docs: pulsar-admin-api). Since the token is sent along, only redirects to brokers of the
# cluster are followed.


_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_AT_ROOT: Final = ("lookup/", "metrics/")
_MAX_REDIRECTS: Final = 8
_PORTS: Final = {"http": 80, "https": 443}
_MAX_REASON: Final = 300
# Lines of a Java stack trace.
_MESSAGE: Final = "Message: "
_NO_MESSAGE: Final = "Message: null"
_TRACE: Final = "Stacktrace:"


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """One request to the admin API.

    Attributes:
        path: below ``/admin/v2/``, or one that begins with ``lookup/`` or ``metrics/``.
        body: a JSON value; None: empty.
        timeout_s: None: the deadline of ``http``.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: Any = None
    timeout_s: float | None = None

    def url(self, base: str) -> str:
        """The URL of the first attempt."""
        root = base if self.path.startswith(_AT_ROOT) else f"{base}/admin/v2"
        return f"{root}/{self.path}" + (f"?{urlencode(self.query)}" if self.query else "")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class AdminLink:
    """Requests to one cluster.

    Args:
        urls: web addresses of the admin API, ``http://host:port``; tried in turn.
        http: carries the token, the deadline of a question, and TLS; closed by its owner.
        brokers: web addresses of the live brokers, to which redirects are followed too.
    """

    def __init__(
        self, urls: Iterable[str], http: HttpClient, brokers: Callable[[], Iterable[str]]
    ) -> None:
        self._urls = deque(url.rstrip("/") for url in urls)
        self._http = http
        self._brokers = brokers

    async def ask(
        self, path: str, query: Mapping[str, str] | None = None, at: str | None = None
    ) -> HttpReply:
        """A read, at any address that answers, or at the broker with the address ``at``.

        Raises:
            PeerRefused: the cluster refused. PeerUnreachable: no broker answers.
        """
        question = AdminRequest("GET", path, query or {})
        if at is not None:
            return await self._send(question, at)
        _, reply = await self._ask_any_url(question)
        return reply

    async def order(self, request: AdminRequest) -> None:
        """A write, sent once: it is never repeated at another address.

        Raises:
            PeerRefused: the cluster refused; nothing was done.
            PeerUnreachable: no answer, or one that does not say whether the write was carried out.
        """
        # A read first finds an address that answers, so that the write is not sent to one that is
        # down. The write goes to that address: concurrent callers may have rotated the list
        # meanwhile.
        url, _ = await self._ask_any_url(AdminRequest("GET", "clusters"))
        await self._send(request, url)

    async def _ask_any_url(self, question: AdminRequest) -> tuple[str, HttpReply]:
        """The reply of the first address that answers."""
        failures: list[str] = []
        for _ in range(len(self._urls)):
            url = self._urls[0]
            try:
                return url, await self._send(question, url)
            except PeerUnreachable as error:
                failures.append(str(error))
                # A concurrent caller may have rotated the list already.
                if self._urls[0] == url:
                    self._urls.rotate(-1)
        raise PeerUnreachable("; ".join(failures))

    async def _send(self, request: AdminRequest, base: str) -> HttpReply:
        url = request.url(base)
        for _ in range(_MAX_REDIRECTS):
            try:
                reply = await self._http.request(
                    request.method,
                    url,
                    json=request.body,
                    # An empty body is sent as JSON, too: Pulsar refuses any other type (415).
                    content=None if request.method == "GET" else b"",
                    timeout_s=request.timeout_s,
                )
            except HttpError as error:
                raise PeerUnreachable(str(error)) from error
            if reply.status not in _REDIRECTS:
                return _check_reply(request, url, reply)
            url = self._next(url, reply)
        raise PeerRefused("TooManyRedirects", f"{request}: sent on {_MAX_REDIRECTS} times")

    def _next(self, url: str, reply: HttpReply) -> str:
        target = _join_url(url, reply.headers.get("Location", ""))
        origin = _origin(target)
        if origin is None or origin not in map(_origin, (*self._urls, *self._brokers())):
            raise PeerRefused(
                "ForeignRedirect",
                f"{url} sends on to {target}, which is not a broker of the cluster",
            )
        if url.startswith("https:") and not target.startswith("https:"):
            raise PeerRefused("ForeignRedirect", f"{url} sends on to {target}, without TLS")
        return target


def _join_url(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location  # not a URL: belongs to no broker


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None if it is not a URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None


def _check_reply(request: AdminRequest, url: str, reply: HttpReply) -> HttpReply:
    """The reply, if it is a success."""
    if 200 <= reply.status < 300:
        return reply
    reason = f"{request} at {urlsplit(url).netloc}: {_reason(reply) or reply.status}"
    if reply.status >= 500:
        # An unload that failed in transit may still have closed the bundle.
        raise PeerUnreachable(reason)
    raise PeerRefused(_status_phrase(reply.status), reason)


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.replace(" ", "")
    except ValueError:
        return str(status)


def _reason(reply: HttpReply) -> str:
    """Pulsar's reason for a failure, in one line."""
    try:
        payload = decode(reply.body)
    except CorruptRecord:
        return ""
    text = payload.get("reason") if isinstance(payload, dict) else None
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    return _error_line(lines)[:_MAX_REASON]


def _error_line(lines: list[str]) -> str:
    """The informative line of a stack trace: its message, else the exception."""
    message = next((line for line in lines if line.startswith(_MESSAGE)), "")
    if message and message != _NO_MESSAGE:
        return message.removeprefix(_MESSAGE)
    thrown = lines[lines.index(_TRACE) + 1 :] if _TRACE in lines else lines
    return thrown[0] if thrown else ""


# Client of the admin API of a Pulsar cluster (docs: pulsar-admin-api).
#
# Everything goes over the admin API: the cluster's own nodes are never written.


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
        await self._link.order(AdminRequest("PUT", path, query, timeout_s=self._act_timeout_s))

    async def split(self, bundle: Bundle, algorithm: str, boundaries: tuple[int, ...]) -> None:
        """Have the owner split a bundle without unloading the children; raises as `unload`.

        ``algorithm`` is Pulsar's name; ``boundaries`` are for ``specified_positions_divide`` only.
        """
        path = f"namespaces/{bundle.namespace}/{bundle.range}/split"
        query = {"unload": "false", "splitAlgorithmName": algorithm}
        positions = list(boundaries) or None
        await self._link.order(AdminRequest("PUT", path, query, positions, self._act_timeout_s))

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
        await self._link.order(AdminRequest("POST", f"{_CONFIGURATION}/{steps}"))

    async def drop_override(self, key: str) -> None:
        """Remove the override of a key: all brokers return to its value at their start."""
        await self._link.order(AdminRequest("DELETE", f"{_CONFIGURATION}/{quote(key, safe='')}"))

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
            self._bounds.bind(broker_id, self._of_scheme(urls), AddressSource.PULSAR)
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
            return self._bounds.url_of(own, AddressSource.PULSAR)
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


# Switches the balancer of a Pulsar cluster off at run time, and restores it.
#
# Only an operator requests this. The previous state is remembered as an override or as no
# override, so that a restore does not pin today's values for brokers that start with another file
# tomorrow.


# Brokers apply an override when their watch of /admin/configuration has fired.
_LOOK_AGAIN_S: Final = 0.5
_APPLIED_WITHIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class PreviousOverride:
    """A key that was changed.

    Attributes:
        override: its dynamic value before; None: it had none.
        value: the value that the brokers ran with.
        changed_to: the value that was set.
    """

    key: str
    override: str | None
    value: str
    changed_to: str

    @property
    def command(self) -> str:
        """The command that restores it."""
        if self.override is None:
            return f"pulsar-admin brokers delete-dynamic-config --config {self.key}"
        return (
            f"pulsar-admin brokers update-dynamic-config --config {self.key} "
            f"--value {self.override}"
        )


async def disable_balancing(
    admin: PulsarAdmin, found: Iterable[Automatism]
) -> tuple[PreviousOverride, ...]:
    """Switch off what can be switched off at run time; return once all brokers run with it.

    If one change fails, the changes before it are reverted.

    Raises:
        PeerRefused, PeerUnreachable: the balancing is not switched off; says why.
    """
    overrides = await admin.overrides()
    wanted = {item.key: item for item in found if item.is_dynamic}
    former = tuple(
        PreviousOverride(key, overrides.get(key), item.value, item.wanted)
        for key, item in wanted.items()
    )
    try:
        for change in former:
            log.info(
                "setting %s=%s in the cluster, was %s", change.key, change.changed_to, change.value
            )
            await admin.override(change.key, change.changed_to)
        await _wait_running(admin, {change.key: change.changed_to for change in former})
    except BaseException:
        # Even if cancelled: the caller does not get the list of overrides to restore.
        await restore_balancing(admin, former)
        raise
    return former


async def restore_balancing(
    admin: PulsarAdmin, former: Iterable[PreviousOverride]
) -> tuple[PreviousOverride, ...]:
    """Restore what `disable_balancing` changed; returns the overrides that it could not restore.

    An override that another client has changed meanwhile stays.
    """
    failed = []
    for change in former:
        try:
            await _put_back(admin, change)
        except PeerError as error:
            log.warning("%s is not restored: %s; run: %s", change.key, error, change.command)
            failed.append(change)
    return tuple(failed)


async def _put_back(admin: PulsarAdmin, change: PreviousOverride) -> None:
    standing = (await admin.overrides()).get(change.key)
    if standing != change.changed_to:
        log.info("%s stays %s: another client has changed it", change.key, standing)
    elif change.override is None:
        await admin.drop_override(change.key)
    else:
        await admin.override(change.key, change.override)


async def _wait_running(admin: PulsarAdmin, wanted: Mapping[str, str]) -> None:
    try:
        async with asyncio.timeout(_APPLIED_WITHIN_S):
            while True:
                running = await admin.all_running()
                if all(wanted.items() <= values.items() for values in running.values()):
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError as error:
        raise PeerUnreachable(
            f"not all brokers run with {', '.join(f'{k}={v}' for k, v in wanted.items())} after "
            f"{_APPLIED_WITHIN_S:g} s"
        ) from error
