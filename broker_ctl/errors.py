"""All errors that broker-ctl raises.

``can_retry`` of a class says whether repeating the same call may succeed.

    BrokerCtlError
      SettingsError                    a setting is wrong: file, line, key, value, what is allowed
      InvalidName                      a topic, namespace, bundle or broker name does not parse
      StoreError
        NoNode, NodeExists, BadVersion, NotEmpty, InvalidPath, NoAuth    the store refused a request
        MultiFailed                    an operation of a transaction failed: all were rolled back
        Unsupported                    the server does not know the request
        TooLarge                       the request or the reply exceeds jute.maxbuffer
        Throttled                      the server rejected the request: overload     (retry)
        ConnectionLoss                 not executed, or a read without an answer     (retry)
        OperationTimeout               a read was not answered by its deadline       (retry)
        Ambiguous                      a write was sent and its outcome is unknown
        SessionError
          SessionExpired               the server ended the session: its ephemerals are gone
          SessionMoved                 another connection took the session over
          AuthFailed                   the server rejected the credentials
          RetriesUsedUp                no session was established within the allowed attempts
          HistoryBehind                the servers lack transactions that this client has seen
          ClientFailed                 the client failed by a fault of its own
        StoreClosed                    this process has closed the store
        CorruptRecord                  a node's payload does not decode
        NewerVersion                   a newer release wrote a node under /broker-ctl
      AuthorityLost                    the lease ran out or the session ended        (retry)
      OwnershipError
        BundleBusy                     another broker owns the bundle
        NotOwner                       this broker does not own the bundle
        BundleGone                     the range is not a bundle of its namespace
        HotTopic                       a split would not divide the bundle's load
        BundleMoving                   the bundle is being unloaded, moved or split  (retry)
          StaleOwner                   the owner node of an expired session remains  (retry)
        BundleReclaimable              reserved for the owner whose session expired  (retry)
        Draining                       this broker is draining: it acquires nothing  (retry)
        UnloadFailed                   the data plane did not close the bundle       (retry)
      Fenced                           the leader epoch or the fencing token is old
      LeadershipSuspended              the leader has lost its connection            (retry)
      NoLeader                         the cluster has no leader at present          (retry)
      NoController                     the cluster has no controller at present      (retry)
      NoBroker                         no broker may receive the bundle              (retry)
      NamespaceMissing, NamespaceExists
      TenantMissing, TenantExists
      ClusterMissing, ClusterExists
      ClusterNotAllowed                a tenant may not use that cluster
      ClusterInUse                     tenants or policies name the cluster
      ForeignNamespace                 other clusters serve the namespace
      TopicMissing                     the topic is not loaded anywhere, or does not exist
      TopicExists                      a replicated topic has that name, or is being deleted
      InvalidReplicas                  a list of replicas is not valid
      ReassignmentMissing              no reassignment of the partition is in progress
      InvalidPolicy                    a policy is not valid
      PolicyMissing                    there is no such policy
      PolicyConflict                   the policy conflicts with an existing one
      PoliciesReadOnly                 an operator has made the policies read-only
      PlanMissing                      the leader does not have the plan, or no longer has it
      RolloutMissing                   no rollout has begun, or it is not the broker's
      RestartFailed                    a broker was not restarted
      OrderConflict                    the request conflicts with an operation in progress
      DualAuthorizationRequired        another role than the proposer's has to approve the plan
      TooManyRequests                  the client exceeds a rate limit             (retry)
      PeerError
        PeerUnreachable                no answer from the other broker               (retry)
        PeerRefused                    the other broker rejected the request
      DataPlaneError
        DataPlaneUnreachable           the broker process does not answer            (retry)
        DataPlaneRefused               the broker process rejected the request
        DataPlaneFenced                the broker process has seen a higher fencing token
      HttpError                        an HTTP exchange failed                       (retry)
      InvalidTransition                a state machine has no transition for an event
      InvariantBroken                  a plan would violate a safety invariant
      EmbeddedError                    the embedded ZooKeeper could not start, or died
      StartError                       the daemon cannot start
      PipelineError                    a job of the pipeline cannot run
"""

from typing import ClassVar


class BrokerCtlError(Exception):
    """Base class of all errors that broker-ctl raises on purpose."""

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
    """The node's access control list does not allow the request."""


class MultiFailed(StoreError):
    """A transaction was rolled back.

    Attributes:
        index: position of the operation that failed, from 0.
        cause: the error of that operation.
    """

    def __init__(self, index: int, path: str, cause: StoreError) -> None:
        super().__init__(f"operation {index} on {path}: {type(cause).__name__}: {cause}")
        self.index = index
        self.path = path
        self.cause = cause


class Unsupported(StoreError):
    """The server does not know the request; it may be too old."""


class TooLarge(StoreError):
    """The request or the reply exceeds jute.maxbuffer."""


class Throttled(StoreError):
    """The server rejected the request because of overload; back off."""

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
        session_id: id of the session that sent the write.
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
    """Another connection took the session over; this client must not reconnect to it."""


class AuthFailed(SessionError):
    """The server rejected the client's credentials."""


class RetriesUsedUp(SessionError):
    """No session was established within the allowed number of attempts."""


class HistoryBehind(SessionError):
    """The servers lack a transaction that this client has seen: a backup was restored."""


class ClientFailed(SessionError):
    """The client failed by a fault of its own and does not reconnect."""


class StoreClosed(StoreError):
    """The store was closed by this process."""


class CorruptRecord(StoreError):
    """A node's payload does not decode. Readers skip and count such nodes; this is never fatal."""


class NewerVersion(StoreError):
    """A node under /broker-ctl was written by a newer release."""


class AuthorityLost(BrokerCtlError):
    """The lease ran out or the session ended: this broker may not begin to serve anything."""

    can_retry = True


class OwnershipError(BrokerCtlError):
    """An operation on a bundle was refused."""


class BundleBusy(OwnershipError):
    """Another broker owns the bundle.

    Attributes:
        owner: broker id of the owner.
    """

    def __init__(self, bundle: str, owner: str) -> None:
        super().__init__(f"{bundle} is owned by {owner}")
        self.owner = owner


class NotOwner(OwnershipError):
    """This broker does not own the bundle."""


class BundleGone(OwnershipError):
    """The range is not a bundle of its namespace, or no longer is one."""


class HotTopic(OwnershipError):
    """One topic has nearly all traffic of the bundle: a split would not divide its load."""


class BundleMoving(OwnershipError):
    """The bundle is being unloaded, moved or split; retry."""

    can_retry = True


class StaleOwner(BundleMoving):
    """The owner node of an expired session of this broker remains; the servers will delete it."""


class BundleReclaimable(OwnershipError):
    """The owner's session expired; for a grace period only that broker may re-acquire it."""

    can_retry = True


class Draining(OwnershipError):
    """This broker is draining and acquires no more bundles."""

    can_retry = True


class UnloadFailed(OwnershipError):
    """The data plane did not confirm that it stopped serving; the broker keeps the bundle."""

    can_retry = True


class Fenced(BrokerCtlError):
    """The request carries a leader epoch or a fencing token that is older than one already seen."""


class LeadershipSuspended(BrokerCtlError):
    """The leader has lost its connection; it decides nothing until it is connected again."""

    can_retry = True


class NoLeader(BrokerCtlError):
    """The cluster has no leader at present."""

    can_retry = True


class NoController(BrokerCtlError):
    """The cluster has no partition controller at present."""

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
    """The cluster does not exist, or the tenant may not use it."""


class ClusterInUse(BrokerCtlError):
    """Tenants or policies still name the cluster."""


class ForeignNamespace(BrokerCtlError):
    """Other clusters serve the namespace, and clients cannot be redirected to any of them."""


class TopicMissing(BrokerCtlError):
    """The topic is not loaded by the broker that would serve it, or does not exist."""


class TopicExists(BrokerCtlError):
    """A replicated topic has that name already, or one that had it is still being deleted."""


class InvalidReplicas(BrokerCtlError):
    """An invalid list of replicas: unknown or repeated brokers, or too few of them."""


class ReassignmentMissing(BrokerCtlError):
    """No reassignment of the partition is in progress."""


class InvalidPolicy(BrokerCtlError):
    """A policy is invalid; the message says what is wrong and what is allowed."""


class PolicyMissing(BrokerCtlError):
    """There is no such policy."""


class PolicyConflict(BrokerCtlError):
    """The policy conflicts with an existing one."""


class PoliciesReadOnly(BrokerCtlError):
    """An operator has made the policies read-only; they can still be read."""


class PlanMissing(BrokerCtlError):
    """There is no such plan: its leader has dropped it, or no longer leads."""


class RolloutMissing(BrokerCtlError):
    """No rollout has begun, or the broker is not part of it."""


class RestartFailed(BrokerCtlError):
    """A broker was not restarted; the message says why."""


class OrderConflict(BrokerCtlError):
    """The request conflicts with an operation in progress; the message says why."""


class DualAuthorizationRequired(BrokerCtlError):
    """Another role than that of the plan's proposer has to approve it."""


class PeerError(BrokerCtlError):
    """An exchange with another broker failed."""


class PeerUnreachable(PeerError):
    """The other broker did not answer; what it did is unknown."""

    can_retry = True


class PeerRefused(PeerError):
    """The other broker refused the request.

    Attributes:
        kind: class name of the error that the other broker raised.
        reason: message of that error.
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
    """The broker process has seen a higher fencing token or a later call for overlapping hashes."""


class HttpError(BrokerCtlError):
    """An HTTP exchange failed, or its answer was not the expected one."""

    can_retry = True


class CertificateRefused(HttpError):
    """The certificate of a server is not the expected one; no request was sent to it."""


class InvalidTransition(BrokerCtlError):
    """A state machine has no transition for an event in its current state.

    Attributes:
        story: the last states and events of the subject, for diagnosis.
    """

    def __init__(self, machine: str, state: str, event: str, story: str = "") -> None:
        tail = f" ({story})" if story else ""
        super().__init__(f"{machine}: {event} in state {state}{tail}")
        self.story = story


class InvariantBroken(BrokerCtlError):
    """A plan would violate a safety invariant."""


class EmbeddedError(BrokerCtlError):
    """The embedded ZooKeeper could not start, or a server of it died."""


class StartError(BrokerCtlError):
    """The daemon refuses to start."""


class TooManyRequests(BrokerCtlError):
    """The client exceeds a rate limit.

    Attributes:
        wait_s: time after which the same request would be within the limit, in seconds.
    """

    can_retry = True

    def __init__(self, reason: str, wait_s: float) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class PipelineError(BrokerCtlError):
    """A job of the pipeline cannot run, for example without Java, input or a required column."""
