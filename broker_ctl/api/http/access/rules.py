"""What a request needs: an operation on a resource, or one of the exemptions."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from aiohttp import web

from broker_ctl.api.http.request_params import namespace_in, topic_in
from broker_ctl.security.authorization import resources
from broker_ctl.security.authorization.operations import Operation
from broker_ctl.security.authorization.resources import Resource


class Exempt(Enum):
    """Routes that need no operation.

    Attributes:
        HEALTH: open to everybody.
        METRICS: open, or to every authenticated role with ``authenticateMetricsEndpoint``.
        AUTHENTICATED: for every authenticated role: the response depends on nothing.
        DATA_PLANE: for the broker process, by the secret that it shares with this daemon.
        CONSOLE: the frame of the console, open to everybody: what it shows, it asks for with the
            rights of its client.
    """

    HEALTH = auto()
    METRICS = auto()
    AUTHENTICATED = auto()
    DATA_PLANE = auto()
    CONSOLE = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """The operation of a route, and the resource that its path names.

    Attributes:
        resource_of: raises InvalidName where the path names none.
    """

    operation: Operation
    resource_of: Callable[[web.Request], Resource]


Access = Rule | Exempt


def cluster_in(_: web.Request) -> Resource:
    """The cluster."""
    return resources.CLUSTER


def broker_resource_in(request: web.Request) -> Resource:
    """The broker in the path."""
    return Resource.of_broker(request.match_info["broker"])


def tenant_resource_in(request: web.Request) -> Resource:
    """The tenant in the path."""
    return Resource.of_tenant(request.match_info["tenant"])


def namespace_resource_in(request: web.Request) -> Resource:
    """The namespace in the path."""
    return Resource.of_namespace(namespace_in(request))


def topic_resource_in(request: web.Request) -> Resource:
    """The topic in the path."""
    return Resource.of_topic(topic_in(request))
