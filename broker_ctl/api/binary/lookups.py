"""Serves lookups of topics, partition counts, and lists of a namespace's topics."""

import itertools
import logging
from typing import Final, NamedTuple

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.dependencies import BinaryDependencies, BinaryRules
from broker_ctl.api.binary.enums import CommandType, LookupType, ServerError, TopicMode
from broker_ctl.api.binary.handshake import OriginalPrincipalRefused, clients_of
from broker_ctl.api.binary.pulsar_commands_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
)
from broker_ctl.api.binary.ready_answers import AnswersOf, ReadyAnswers
from broker_ctl.api.binary.refusal_audit import RefusalAudit, RefusedSender
from broker_ctl.api.binary.replies import server_error_of
from broker_ctl.api.binary.workers import LookupRequest
from broker_ctl.api.http.redirects import listener_of
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.lookup.lookup import Answer, Connect, PeerCluster, Redirect
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.core.model.names import DOMAINS, Namespace, Topic
from broker_ctl.errors import BrokerCtlError, InvalidName, NoBroker
from broker_ctl.security.authorization import Client, Operation, Resource
from broker_ctl.tracing.spans import request_span

log = logging.getLogger(__name__)

_OK: Final = "ok"
_DOMAINS: Final = {
    TopicMode.PERSISTENT: DOMAINS[:1],
    TopicMode.NON_PERSISTENT: DOMAINS[1:],
    TopicMode.ALL: DOMAINS,
}


class _Located(NamedTuple):
    """What the answer to a LOOKUP says."""

    how: LookupType
    there: LookupUrls
    is_authoritative: bool

    def frame(self, request_id: int) -> bytes:
        """The answer to a request."""
        how, there, is_authoritative = self
        return replies.located(request_id, how, there, is_authoritative=is_authoritative)


class Lookups:
    """Answers requests; errors become answers too, and all requests are counted."""

    def __init__(self, dependencies: BinaryDependencies, rules: BinaryRules) -> None:
        self._dependencies = dependencies
        self._authenticator = rules.authenticator
        self._audit = RefusalAudit(rules.audit, rules.wall_ms)
        self._commands = dependencies.instruments.commands
        self._ready = ReadyAnswers(
            dependencies.lookup, dependencies.authorization, dependencies.clock
        )
        self._numbers = itertools.count(1)
        self._is_draining = False

    def drain(self) -> None:
        """Redirect clients to other brokers from now on."""
        self._is_draining = True

    def ready(self, client: Client | None, *, is_tls: bool) -> AnswersOf | None:
        """The answers to such clients that hold until the caller waits; None: there are none."""
        return None if self._is_draining else self._ready.of(client, is_tls=is_tls)

    def now_s(self) -> float:
        """The time on the clock of `count_ready`."""
        return self._dependencies.clock.now_s()

    def count_ready(self, began_s: float) -> None:
        """Count the lookups that they have answered since then."""
        connects, redirects = self._ready.take_counts()
        self._dependencies.lookup.count_recalled(connects, redirects, self.now_s() - began_s)
        self._commands.add(CommandType.LOOKUP.name, _OK, amount=connects + redirects)

    def recall(self, request: LookupRequest) -> bytes | None:
        """The frame that answers it, if memory has it; None: `answer` finds it, or the error."""
        if request.kind is not CommandType.LOOKUP or self._is_draining:
            return None
        client = request.client
        command: CommandLookupTopic = request.command
        if client is not None and command.original_principal:
            return None
        try:
            topic = _topic_in(command)
            if client is not None and not self._is_known_allowed(client, topic):
                return None
            known = self._dependencies.lookup.recall(topic, authoritative=command.authoritative)
            found = None if known is None else self._located(request, known)
        except BrokerCtlError:
            return None
        if found is None:
            return None
        self._commands.add(request.kind.name, _OK)
        if self._may_look_up_all(client, topic):
            parts = replies.located_parts(
                found.how, found.there, is_authoritative=found.is_authoritative
            )
            self._ready.keep(request.data, client, topic, parts, is_tls=request.is_tls)
        return found.frame(command.request_id)

    def _may_look_up_all(self, client: Client | None, topic: Topic) -> bool:
        """Whether memory says that a client may look up all topics of the topic's namespace."""
        authorization = self._dependencies.authorization
        return (
            client is None
            or authorization.knows_right(client, Operation.LOOKUP, topic.namespace)
            or authorization.allows_everywhere(client, Operation.LOOKUP)
        )

    def _is_known_allowed(self, client: Client, topic: Topic) -> bool:
        """Whether memory says that a client may look a topic up."""
        if self._may_look_up_all(client, topic):
            return True
        authorization = self._dependencies.authorization
        decision = authorization.recall(client, Operation.LOOKUP, Resource.of_topic(topic))
        return decision is not None and decision.is_allowed

    async def answer(self, request: LookupRequest) -> bytes:
        """The frame that answers it."""
        if self._is_draining:
            return self._failure(
                request, ServerError.ServiceNotReady, "this broker is shutting down"
            )
        try:
            with self._dependencies.bound.held():
                match request.kind:
                    case CommandType.LOOKUP:
                        frame = await self._find(request)
                    case CommandType.GET_TOPICS_OF_NAMESPACE:
                        frame = await self._list(request)
                    case _:
                        frame = await self._count(request)
        except BrokerCtlError as error:
            return self._failure(request, server_error_of(error), str(error))
        except Exception:
            number = next(self._numbers)
            log.exception("binary request %d failed: %s", number, request.kind.name)
            reason = f"internal error; the log of this broker has it as binary request {number}"
            return self._failure(request, ServerError.UnknownError, reason)
        self._commands.add(request.kind.name, _OK)
        return frame

    def overdue(self, request: LookupRequest) -> bytes:
        """The frame for a request whose deadline has passed."""
        return self._failure(request, ServerError.MetadataError, "not answered in time")

    async def _find(self, request: LookupRequest) -> bytes:
        command: CommandLookupTopic = request.command
        topic = _topic_in(command)
        await self._authorize(request, Resource.of_topic(topic))
        # Clients of this protocol are about to open the topic, so its bundle is acquired and
        # loaded. Its redirects have no room for a proof: a client takes only host and port of them.
        with request_span(
            self._dependencies.tracer, "binary lookup", namespace=str(topic.namespace)
        ):
            answer = await self._dependencies.lookup.find(
                topic, authoritative=command.authoritative, is_preloading=True
            )
        return self._located(request, answer).frame(command.request_id)

    def _located(self, request: LookupRequest, answer: Answer) -> _Located:
        """What the frame for an answer says.

        Raises:
            NoBroker, ApiError: the broker has no address that serves this client.
        """
        command: CommandLookupTopic = request.command
        broker_id = answer.urls.broker_id
        match answer:
            case Connect(urls):
                listener = listener_of(urls, command.advertised_listener_name)
                there: LookupUrls | None = LookupUrls(listener.native_url, listener.native_url_tls)
                how, is_authoritative = LookupType.CONNECT, True
            case Redirect(_, is_authoritative, _):
                # To the daemon of that broker: its broker process does not know of our lookups.
                there, how = self._dependencies.lookup_urls_of(broker_id), LookupType.REDIRECT
                there = there and there.at(command.advertised_listener_name)
            case PeerCluster(urls):
                # Another cluster, whose brokers serve lookups themselves and have a leader.
                there = LookupUrls(urls.native_url, urls.native_url_tls)
                how, is_authoritative = LookupType.REDIRECT, False
        if there is None:
            raise NoBroker(f"no address for binary lookups is known of {broker_id}")
        if not (there.url_tls if request.is_tls else there.url):
            # A client follows the address of the scheme that it connected with.
            scheme = "pulsar+ssl" if request.is_tls else "pulsar"
            raise ApiError(412, f"{broker_id} has no {scheme} address")
        return _Located(how, there, is_authoritative)

    async def _count(self, request: LookupRequest) -> bytes:
        command: CommandPartitionedTopicMetadata = request.command
        topic = _topic_in(command)
        await self._authorize(request, Resource.of_topic(topic))
        # Whether the topic may be created is decided by the broker process, when it is opened.
        count = await self._dependencies.partitions_of(topic)
        return replies.partitions(command.request_id, count)

    async def _list(self, request: LookupRequest) -> bytes:
        command: CommandGetTopicsOfNamespace = request.command
        try:
            domains = _DOMAINS[TopicMode(command.mode)]
        except ValueError:
            raise ApiError(412, f"mode {command.mode} is not known here") from None
        namespace = Namespace.parse(str(command.namespace))
        await self._authorize(request, Resource.of_namespace(namespace))
        return replies.topics(
            command.request_id, await self._dependencies.topics_of(namespace, domains)
        )

    async def _authorize(self, request: LookupRequest, resource: Resource) -> None:
        """Refuse what the client may not look up.

        Raises:
            ApiError: 403, it may not.
        """
        client, authorization = request.client, self._dependencies.authorization
        if client is None:
            return
        clients: tuple[Client, ...] = (client,)
        if request.kind is not CommandType.GET_TOPICS_OF_NAMESPACE:
            try:
                clients = clients_of(
                    request.command, client, authorization.policy, self._authenticator
                )
            except OriginalPrincipalRefused as error:
                raise ApiError(403, str(error), kind="Forbidden") from error
        for each in clients:
            if authorization.allows_everywhere(each, Operation.LOOKUP):
                continue
            decision = await authorization.allows(each, Operation.LOOKUP, resource)
            if not decision.is_allowed:
                raise ApiError(403, decision.reason, kind="Forbidden")

    def _failure(self, request: LookupRequest, why: ServerError, reason: str) -> bytes:
        self._commands.add(request.kind.name, why.name)
        sender = RefusedSender(request.origin, request.client)
        self._audit.refuse_request(sender, request, why, reason)
        return replies.failure(request.kind, request.command.request_id, why, reason)


def _topic_in(command: CommandLookupTopic | CommandPartitionedTopicMetadata) -> Topic:
    if not isinstance(command.topic, str):
        # So protobuf shows bytes that do not decode.
        raise InvalidName("a topic's name is UTF-8")
    return Topic.parse(command.topic)
