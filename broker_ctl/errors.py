"""The whole error tree.

Each class says whether the same call may succeed when it is made again (``can_retry``).

    BrokerCtlError
      SettingsError                    a setting is wrong: file, line, key, value, what is allowed
      InvalidName                      a topic, namespace, bundle or broker name does not parse
      StoreError
        NoNode, NodeExists, BadVersion, NotEmpty, InvalidPath, NoAuth    definite answers
        MultiFailed                    which operation of a transaction failed, and why
        Unsupported                    the server does not know the request
        TooLarge                       request or reply beyond jute.maxbuffer
        Throttled                      the server refused to take the request        (retry)
        ConnectionLoss                 not executed, or a read without an answer     (retry)
        OperationTimeout               a read was not answered by its deadline       (retry)
        Ambiguous                      a write whose outcome could not be decided
        SessionError
          SessionExpired               the server ended the session: its ephemerals are gone
          SessionMoved                 another connection took the session over
          AuthFailed                   the server refused our credentials
          RetriesUsedUp                no session within the number of attempts allowed
          HistoryBehind                the servers have lost transactions that were seen
          ClientFailed                 a fault of the client itself
        StoreClosed
        CorruptRecord                  a payload that does not decode
        NewerVersion                   a node under /broker-ctl written by a newer release
      AuthorityLost                    the lease ran out or the session ended        (retry)
      OwnershipError
        BundleBusy                     another broker owns the bundle
        NotOwner                       this broker does not own it
        BundleGone                     the range is not a bundle of its namespace
        BundleMoving                   being unloaded, moved or split                (retry)
          StaleOwner                   a node of an earlier session still stands     (retry)
        BundleReclaimable              its owner's session expired: only it may return (retry)
        Draining                       this broker takes nothing more                (retry)
        UnloadFailed                   the data plane kept the bundle open           (retry)
      Fenced                           refused: the epoch or the token is old
      LeadershipSuspended                 the leader's connection is gone: it waits     (retry)
      NoLeader                         no broker leads at present                    (retry)
      NoController                     nobody controls partitions at the moment      (retry)
      NoBroker                         no broker may receive the bundle              (retry)
      NamespaceMissing, NamespaceExists
      TenantMissing, TenantExists
      ClusterMissing, ClusterExists
      ClusterNotAllowed                a tenant may not use that cluster
      ClusterInUse                     tenants or policies name the cluster
      ForeignNamespace                 it is served in other clusters
      TopicMissing                     the topic is not loaded anywhere, or does not exist
      TopicExists                      a replicated topic has that name, or is being deleted
      InvalidReplicas                  a list of replicas that cannot be, and why
      ReassignmentMissing              nothing is being reassigned
      InvalidPolicy                    a policy that makes no sense, and why
      PolicyMissing                    there is no such policy
      PolicyConflict                   it does not go together with one that stands
      PoliciesReadOnly                 no policy may be changed at the moment
      PlanMissing                      there is no such plan (any more)
      OrderConflict                    the request conflicts with an operation in progress
      PeerError
        PeerUnreachable                no answer from the other broker               (retry)
        PeerRefused                    the other broker said no, and why
      DataPlaneError
        DataPlaneUnreachable           the broker process does not answer            (retry)
        DataPlaneRefused               the broker process said no, and why
        DataPlaneFenced                the broker process holds a higher token
      HttpError                        an HTTP exchange failed                       (retry)
      InvalidTransition                a machine got an event that it has no row for
      InvariantBroken                  a plan would break a safety sentence
      EmbeddedError                    the embedded ZooKeeper could not start or died
      StartError                       the daemon refuses to start, and says why
      PipelineError                    a job of the pipeline cannot be done, and why
"""

from typing import ClassVar


class BrokerCtlError(Exception):
    """Root of everything that broker-ctl raises on purpose."""

    can_retry: ClassVar[bool] = False


class SettingsError(BrokerCtlError):
    """A setting is wrong; the message names file, line, key, value and what is allowed."""


class InvalidName(BrokerCtlError):
    """A topic, namespace, bundle or broker name does not parse."""


class StoreError(BrokerCtlError):
    """The metadata store answered with an error or not at all."""


class NoNode(StoreError):
    """The node does not exist."""


class NodeExists(StoreError):
    """The node exists already."""


class BadVersion(StoreError):
    """The node's version is not the expected one."""


class NotEmpty(StoreError):
    """The node has children."""


class InvalidPath(StoreError):
    """The path is malformed, or its parent cannot have children."""


class NoAuth(StoreError):
    """The access control list does not allow it."""


class MultiFailed(StoreError):
    """A transaction was rolled back.

    Attributes:
        index: position of the guilty operation, from 0.
        cause: what was wrong with it.
    """

    def __init__(self, index: int, path: str, cause: StoreError) -> None:
        super().__init__(f"operation {index} on {path}: {type(cause).__name__}: {cause}")
        self.index = index
        self.path = path
        self.cause = cause


class Unsupported(StoreError):
    """The server does not know the request; it may be too old."""


class TooLarge(StoreError):
    """The request or the reply is beyond jute.maxbuffer."""


class Throttled(StoreError):
    """The server refused to take the request; back off."""

    can_retry = True


class ConnectionLoss(StoreError):
    """The connection ended before the request was sent, or a read had no answer."""

    can_retry = True


class OperationTimeout(StoreError):
    """A read was not answered by its deadline."""

    can_retry = True


class Ambiguous(StoreError):
    """A write was sent and its outcome is unknown, even after reading.

    Attributes:
        session_id: the session that sent it.
        zxid_before: the last zxid that the client had seen when it sent the write.
    """

    def __init__(self, message: str, session_id: int = 0, zxid_before: int = 0) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.zxid_before = zxid_before


class SessionError(StoreError):
    """The session can no longer be used."""


class SessionExpired(SessionError):
    """The server ended the session; its ephemeral nodes are gone."""


class SessionMoved(SessionError):
    """Another connection took the session over; this one must not fight."""


class AuthFailed(SessionError):
    """The server refused our credentials."""


class RetriesUsedUp(SessionError):
    """No session was established within the allowed number of attempts."""


class HistoryBehind(SessionError):
    """The servers' newest transaction is older than one that was seen: they were restored."""


class ClientFailed(SessionError):
    """The client failed by a fault of its own and does not reconnect."""


class StoreClosed(StoreError):
    """The store was closed by this process."""


class CorruptRecord(StoreError):
    """A node's payload does not decode; it is skipped and counted, never fatal."""


class NewerVersion(StoreError):
    """A node under /broker-ctl was written by a newer release."""


class AuthorityLost(BrokerCtlError):
    """The lease ran out or the session ended: nothing may be started."""

    can_retry = True


class OwnershipError(BrokerCtlError):
    """An operation on a bundle was refused."""


class BundleBusy(OwnershipError):
    """Another broker owns the bundle.

    Attributes:
        owner: its broker id.
    """

    def __init__(self, bundle: str, owner: str) -> None:
        super().__init__(f"{bundle} is owned by {owner}")
        self.owner = owner


class NotOwner(OwnershipError):
    """This broker does not own the bundle."""


class BundleGone(OwnershipError):
    """The range is not a bundle of its namespace (any more)."""


class BundleMoving(OwnershipError):
    """The bundle is being unloaded, moved or split; retry."""

    can_retry = True


class StaleOwner(BundleMoving):
    """The node of an earlier session of this broker still exists; the servers will delete it."""


class BundleReclaimable(OwnershipError):
    """The owner's session expired; for a grace period only that broker may re-acquire it."""

    can_retry = True


class Draining(OwnershipError):
    """This broker is draining and acquires nothing more."""

    can_retry = True


class UnloadFailed(OwnershipError):
    """The data plane did not confirm that it stopped serving; the bundle is kept."""

    can_retry = True


class Fenced(BrokerCtlError):
    """Refused because its lead epoch or its fencing token is old."""


class LeadershipSuspended(BrokerCtlError):
    """The leader's connection is gone: until it is back nothing is decided."""

    can_retry = True


class NoLeader(BrokerCtlError):
    """There is no leader at present."""

    can_retry = True


class NoController(BrokerCtlError):
    """There is no controller of partitions at present."""

    can_retry = True


class NoBroker(BrokerCtlError):
    """No broker may receive the bundle."""

    can_retry = True


class NamespaceMissing(BrokerCtlError):
    """There is no such namespace."""


class NamespaceExists(BrokerCtlError):
    """The namespace exists already."""


class TenantMissing(BrokerCtlError):
    """There is no such tenant."""


class TenantExists(BrokerCtlError):
    """The tenant exists already."""


class ClusterMissing(BrokerCtlError):
    """There is no such cluster."""


class ClusterExists(BrokerCtlError):
    """The cluster exists already."""


class ClusterNotAllowed(BrokerCtlError):
    """A cluster that does not exist, or is not among those that the tenant may use."""


class ClusterInUse(BrokerCtlError):
    """Tenants, or policies of the cluster, still name it."""


class ForeignNamespace(BrokerCtlError):
    """The namespace is served in other clusters, none of which clients may be sent to."""


class TopicMissing(BrokerCtlError):
    """The topic is not loaded by the broker that would serve it, or does not exist."""


class TopicExists(BrokerCtlError):
    """A replicated topic has that name already, or one that had it is still being deleted."""


class InvalidReplicas(BrokerCtlError):
    """An invalid list of replicas: unknown or repeated brokers, or too few of them."""


class ReassignmentMissing(BrokerCtlError):
    """Nothing is being reassigned there."""


class InvalidPolicy(BrokerCtlError):
    """A policy is invalid; the message says what is wrong and what is allowed."""


class PolicyMissing(BrokerCtlError):
    """There is no such policy."""


class PolicyConflict(BrokerCtlError):
    """The policy conflicts with an existing one."""


class PoliciesReadOnly(BrokerCtlError):
    """An operator has made the policies read-only; reads go on."""


class PlanMissing(BrokerCtlError):
    """There is no such plan (any more): its leader has dropped it, or no longer leads."""


class OrderConflict(BrokerCtlError):
    """The request conflicts with an operation in progress; the message says why."""


class PeerError(BrokerCtlError):
    """An exchange with another broker failed."""


class PeerUnreachable(PeerError):
    """The other broker did not answer; what it did is unknown."""

    can_retry = True


class PeerRefused(PeerError):
    """The other broker refused the request.

    Attributes:
        kind: class name of its error.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class DataPlaneError(BrokerCtlError):
    """An exchange with the broker process failed."""


class DataPlaneUnreachable(DataPlaneError):
    """The broker process does not answer."""

    can_retry = True


class DataPlaneRefused(DataPlaneError):
    """The broker process refused the request."""


class DataPlaneFenced(DataPlaneError):
    """The broker process has seen a higher token, or a later call, for an overlapping hash."""


class HttpError(BrokerCtlError):
    """An HTTP exchange failed, or its answer was not the expected one."""

    can_retry = True


class InvalidTransition(BrokerCtlError):
    """A machine got an event that it has no row for.

    Attributes:
        story: the subject's last states and events.
    """

    def __init__(self, machine: str, state: str, event: str, story: str = "") -> None:
        tail = f" ({story})" if story else ""
        super().__init__(f"{machine}: {event} in state {state}{tail}")
        self.story = story


class InvariantBroken(BrokerCtlError):
    """A plan would break a safety invariant."""


class EmbeddedError(BrokerCtlError):
    """The embedded ZooKeeper could not start, or a server of it died."""


class StartError(BrokerCtlError):
    """The daemon refuses to start."""


class PipelineError(BrokerCtlError):
    """A job of the pipeline cannot be done: no Java, no input, a column that is not there."""
