"""The store that signs what it writes, and verifies what it reads."""

import base64
import hmac
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import SessionExpired
from broker_ctl.security.cluster_key import SigningKeys
from broker_ctl.security.signed_requests import MAX_SKEW_MS
from broker_ctl.store import paths
from broker_ctl.store.forwarding import ForwardingStore
from broker_ctl.store.interface import (
    ANY_VERSION,
    Answer,
    BulkStore,
    Create,
    CreateMode,
    Operation,
    Outcome,
    Read,
    Result,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import parent_of

log = logging.getLogger(__name__)

# Which nodes carry a signature, by their path.
#
# Those by which brokers speak to each other, and that only broker-ctl writes; and requests to
# delete a topic, for which an operator asks a broker. Their payloads are JSON objects, of which
# every reader ignores unknown fields.


@dataclass(frozen=True, slots=True)
class Family:
    """Nodes of one meaning.

    Attributes:
        name: label of its metrics.
        is_ephemeral: the signature holds for one session only, that of the node's owner.
        is_hidden: a refused node is treated as absent. All others are treated as corrupt, which
            their readers skip and count; this one has an effect even if it does not decode.
    """

    name: str
    is_ephemeral: bool = False
    is_hidden: bool = False


_ELECTION: Final = Family("election", is_ephemeral=True)
_PLAN: Final = Family("plan")

_NODES: Final = {
    paths.LOADBALANCE_ELECTION.node_path: _ELECTION,
    paths.CONTROLLER_ELECTION.node_path: _ELECTION,
    paths.ATTACH_ELECTION.node_path: _ELECTION,
    paths.PAUSE: Family("pause", is_hidden=True),
    paths.ROLLOUT: Family("rollout"),
}
_CHILDREN: Final = {
    paths.REGISTRATIONS: Family("registration", is_ephemeral=True),
    paths.BROKER_IDS: Family("broker", is_ephemeral=True),
    paths.FAILED: Family("failed-replicas", is_ephemeral=True),
    # Its readers ask whether it exists. Kafka's tools write it too, without a payload.
    paths.DELETIONS: Family("deletion", is_hidden=True),
    paths.DRAINS: Family("drain"),
    paths.MAINTENANCE: Family("maintenance"),
    paths.MOVES: Family("move"),
    paths.PLANS: _PLAN,
}
_GRANDCHILDREN: Final = {
    paths.PLANS: _PLAN,
    paths.STATE: Family("instruction"),
}
FAMILIES: Final = sorted(
    {family.name for known in (_NODES, _CHILDREN, _GRANDCHILDREN) for family in known.values()}
)
PERSISTENT_NODES: Final = [path for path, of in _NODES.items() if not of.is_ephemeral]
PERSISTENT_PARENTS: Final = [path for path, of in _CHILDREN.items() if not of.is_ephemeral]
PERSISTENT_GRANDPARENTS: Final = [
    path for path, of in _GRANDCHILDREN.items() if not of.is_ephemeral
]
# One call decides about the paths of most requests, none of which begins like this.
_BEGINNINGS: Final = (
    "/broker-ctl/",
    "/brokers/",
    f"{paths.DELETIONS}/",
    paths.LOADBALANCE_ELECTION.node_path,
    paths.CONTROLLER_ELECTION.node_path,
)


def family_of(path: str) -> Family | None:
    """The family of a node, None for a node without a signature."""
    if not path.startswith(_BEGINNINGS):
        return None
    if (family := _NODES.get(path)) is not None:
        return family
    parent = parent_of(path)
    return _CHILDREN.get(parent) or _GRANDCHILDREN.get(parent_of(parent))


# Signing and verifying of payloads.
#
# A signature is the last field of a JSON object, ``"signature"``: 36 bytes in base64 (RFC 4648),
# and before them, for a persistent node, the time. The signed message is the scope, the path, the
# session that owns the node (0: none), the time (Unix time in milliseconds; 0: none) and the
# payload without the field. So a payload counts at no other path, in no other cluster, and, of an
# ephemeral node, in no other session.
#
# An earlier payload of a persistent node counts no more when an attacker writes it there again:
# the servers date each write, and the two times have to agree.


_CONTEXT: Final = "znode"
_SIGNED: Final = re.compile(rb',"signature":"(?:(\d{1,15})\.)?([A-Za-z0-9+/]{48})"}\Z')
# An empty object has no field that a comma could follow.
_MIN_PAYLOAD_BYTES: Final = 3
# One line for each family and reason in this time: an attacker must not fill the log.
_LOG_PERIOD_S: Final = 60.0
# Decodes nowhere.
_REFUSED: Final = b""

# Called with the names of the family and of the reason, for each payload without a valid signature.
FailureListener = Callable[[str, str], None]


class Failure(StrEnum):
    """Why a payload is not accepted; values of a metric's label."""

    UNSIGNED = "unsigned"
    WRONG = "wrong"
    REPLAYED = "replayed"


_SAYS: Final = {
    Failure.UNSIGNED: "no signature",
    Failure.WRONG: "a wrong signature",
    Failure.REPLAYED: "a signature of another time than the servers' (replayed, or clocks differ)",
}


class ZnodeSignatures:
    """Signs payloads, and verifies them.

    Args:
        scope: names the cluster; the same for all its daemons, unlike for other clusters.
        is_required: refuse what is unsigned or wrong; otherwise it is only counted and logged.
    """

    def __init__(
        self,
        keys: SigningKeys,
        scope: str,
        clock: Clock,
        *,
        is_required: bool,
        on_failure: FailureListener,
    ) -> None:
        self._keys = keys
        self._scope = scope
        self._is_required = is_required
        self._on_failure = on_failure
        self._clock = clock
        self._quiet_until_s: dict[tuple[str, Failure], float] = {}

    def seal(self, path: str, data: bytes, session_id: int) -> bytes:
        """The payload with its signature; as it is where its node carries none.

        ``session_id`` is that in which the payload will be written.
        """
        family = family_of(path)
        if family is None or len(data) < _MIN_PAYLOAD_BYTES or not data.endswith(b"}"):
            return data
        if family.is_ephemeral:
            owner, time_ms, prefix = session_id, 0, b""
        else:
            owner, time_ms = 0, self._clock.wall_ms()
            prefix = b"%d." % time_ms
        signature = self._keys.sign(_CONTEXT, self._message(path, data, owner, time_ms))
        return b'%b,"signature":"%b%b"}' % (data[:-1], prefix, base64.b64encode(signature))

    def open(self, node: Versioned) -> Versioned | None:
        """The node without its signature; a refused one is empty, or None if it is hidden."""
        family = family_of(node.path)
        if family is None:
            return node
        opened, failure = self.examine(node, family)
        return opened if failure is None else self._failed(opened, family, failure)

    def examine(self, node: Versioned, family: Family) -> tuple[Versioned, Failure | None]:
        """The node without its signature, and why it is not accepted; None: it is."""
        found = _SIGNED.search(node.data)
        if found is None:
            return node, Failure.UNSIGNED
        opened = node._replace(data=node.data[: found.start()] + b"}")
        message = self._message_of(opened, found)
        if not self._keys.verify(_CONTEXT, message, base64.b64decode(found[2])):
            return opened, Failure.WRONG
        if not family.is_ephemeral:
            time_ms = int(found[1] or 0)
            if abs(node.stat.mtime_ms - time_ms) > MAX_SKEW_MS:
                return opened, Failure.REPLAYED
        return opened, None

    def is_by_first_key(self, node: Versioned) -> bool:
        """Whether the first key, which signs, has made a node's valid signature."""
        found = _SIGNED.search(node.data)
        if found is None:
            return False
        opened = node._replace(data=node.data[: found.start()] + b"}")
        signature = self._keys.sign(_CONTEXT, self._message_of(opened, found))
        return hmac.compare_digest(signature, base64.b64decode(found[2]))

    def _message_of(self, opened: Versioned, found: re.Match[bytes]) -> bytes:
        # The owner, not whether it is ephemeral: a persistent copy does not count as ephemeral.
        owner, time_ms = opened.stat.ephemeral_owner, int(found[1] or 0)
        return self._message(opened.path, opened.data, owner, time_ms)

    def _message(self, path: str, data: bytes, owner: int, time_ms: int) -> bytes:
        scope, name = self._scope.encode(), path.encode()
        return b"%b\0%b\0%d\0%d\0%b" % (scope, name, owner, time_ms, data)

    def _failed(self, node: Versioned, family: Family, failure: Failure) -> Versioned | None:
        self._on_failure(family.name, failure.value)
        self._log(node, family, failure)
        if not self._is_required:
            return node
        return None if family.is_hidden else node._replace(data=_REFUSED)

    def _log(self, node: Versioned, family: Family, failure: Failure) -> None:
        now_s, kind = self._clock.now_s(), (family.name, failure)
        if now_s < self._quiet_until_s.get(kind, now_s):
            return
        self._quiet_until_s[kind] = now_s + _LOG_PERIOD_S
        fate = "refused" if self._is_required else "accepted until signatures are required"
        log.warning("%s carries %s under the cluster's key: %s", node.path, _SAYS[failure], fate)


# The store that signs what it writes, and verifies what it reads.
#
# It is the innermost decorator: caches, batches and readers above see payloads without signatures.


T = TypeVar("T")


class SignedStore(ForwardingStore):
    """`BulkStore` over another; paths of no family pass unchanged."""

    def __init__(self, store: BulkStore, signatures: ZnodeSignatures) -> None:
        super().__init__(store)
        self._bulk = store
        self._signatures = signatures

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore`."""
        return self._opened(await self._bulk.get(path))

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore`."""
        return [self._opened(node) for node in await self._bulk.get_many(paths)]

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """See `BulkStore`."""
        answers = await self._bulk.read_many(reads, deadline_s)
        opened = self._signatures.open
        return [opened(found) if type(found) is Versioned else found for found in answers]

    def _opened(self, node: Versioned | None) -> Versioned | None:
        return None if node is None else self._signatures.open(node)

    # Writes. A write that waits fails with its session, so the session that signs is the one that
    # will own an ephemeral node.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """See `MetadataStore`."""
        sealed = self._sealed_data(path, data)
        created = await self._bulk.create(
            path, sealed, mode, ttl_ms=ttl_ms, make_parents=make_parents
        )
        return created._replace(data=data)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore`."""
        sealed = self._sealed_data(path, data)
        return await self._bulk.set(path, sealed, version)

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore`."""
        results = await self._bulk.multi(self._sealed(operations))
        return tuple(map(_restored, operations, results))

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore`."""
        outcomes = await self._bulk.write_many(self._sealed(operations), deadline_s)
        return tuple(map(_restored, operations, outcomes))

    def _sealed_data(self, path: str, data: bytes) -> bytes:
        family = family_of(path)
        if family is None:
            return data
        if family.is_ephemeral and not self.session_id:
            # Its session is not known yet, which the signature has to name.
            raise SessionExpired(f"{path}: no session owns it: nothing was written")
        return self._signatures.seal(path, data, self.session_id)

    def _sealed(self, operations: Sequence[Operation]) -> list[Operation]:
        return [self._seal(operation) for operation in operations]

    def _seal(self, operation: Operation) -> Operation:
        if not isinstance(operation, Create | SetData):
            return operation
        sealed = self._sealed_data(operation.path, operation.data)
        if sealed is operation.data:
            return operation
        if isinstance(operation, Create):
            return Create(operation.path, sealed, operation.mode, operation.ttl_ms)
        return SetData(operation.path, sealed, operation.version)


def _restored(operation: Operation, outcome: T) -> T | Versioned:
    """The outcome, with the data that the caller wrote."""
    if isinstance(operation, Create) and isinstance(outcome, Versioned):
        return outcome._replace(data=operation.data)
    return outcome
