"""Records under /broker-ctl, and the node of a metadata migration."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import NO_LOOKUP_URLS, BrokerUrls, LookupUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.store.records.fields import Fields, with_format_version
from broker_ctl.store.records.ownership import decode_listeners, encode_listeners

# What lies under /broker-ctl, and the epochs of elections (docs: invariants).
#
# Each payload carries the version of its format; a newer one is refused with `NewerVersion`.


MOST_LOST: Final = 100
_FINGERPRINT: Final = re.compile("[0-9a-f]{8}")
# Written beside each ring; its node's own version is what counts.
RING_GENERATION: Final = encode(with_format_version({}))


@dataclass(frozen=True, slots=True)
class ClusterName:
    """What the brokers below a chroot are called together."""

    name: str

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        return cls(Fields.of_ours(path, data).text("name"))

    def encode(self) -> bytes:
        """The payload."""
        return encode(with_format_version({"name": self.name}))


@dataclass(frozen=True, slots=True)
class Registration:
    """A living broker-ctl process.

    Each start of a process draws a new nonce, which distinguishes a restart and a twin from the
    same process in a new session. A draining broker gives and never receives. ``lookup_urls``
    are where this process itself speaks Pulsar's binary protocol, if it does; an empty ``rack`` is
    unknown. ``settings`` are fingerprints of its settings by key; None: it reports none.
    """

    nonce: str
    session_timeout_ms: int
    started_ms: int
    urls: BrokerUrls
    is_draining: bool = False
    lookup_urls: LookupUrls = NO_LOOKUP_URLS
    rack: str = ""
    settings: Mapping[str, str] | None = None

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        urls = BrokerUrls(
            fields.listed_broker_id("brokerId"),
            fields.optional_text("webUrl"),
            fields.optional_text("webUrlTls"),
            fields.optional_text("nativeUrl"),
            fields.optional_text("nativeUrlTls"),
            decode_listeners(fields),
            fields.optional_text("adminUrl"),
            fields.optional_text("adminUrlTls"),
        )
        return cls(
            fields.text("nonce"),
            fields.integer("sessionTimeoutMs"),
            fields.integer("startedMs"),
            urls,
            fields.flag("draining", default=False),
            LookupUrls(
                fields.optional_text("lookupUrl"),
                fields.optional_text("lookupUrlTls"),
                decode_listeners(fields, "lookupListeners"),
            ),
            fields.optional_text("rack") or "",
            _fingerprints(fields),
        )

    def encode(self) -> bytes:
        """The payload."""
        urls = self.urls
        return encode(
            with_format_version(
                {
                    "brokerId": urls.broker_id,
                    "nonce": self.nonce,
                    "sessionTimeoutMs": self.session_timeout_ms,
                    "startedMs": self.started_ms,
                    "webUrl": urls.web_url,
                    "webUrlTls": urls.web_url_tls,
                    "nativeUrl": urls.native_url,
                    "nativeUrlTls": urls.native_url_tls,
                    "advertisedListeners": encode_listeners(urls.listeners),
                    "adminUrl": urls.admin_url,
                    "adminUrlTls": urls.admin_url_tls,
                    "draining": self.is_draining,
                    "lookupUrl": self.lookup_urls.url,
                    "lookupUrlTls": self.lookup_urls.url_tls,
                    "lookupListeners": encode_listeners(self.lookup_urls.listeners) or None,
                    "rack": self.rack or None,
                    "settings": None if self.settings is None else dict(self.settings),
                },
            ),
        )


def _fingerprints(fields: Fields) -> Mapping[str, str] | None:
    """What is not a fingerprint is left out: it is a hint, and others write it."""
    if "settings" not in fields.values:
        return None
    found = fields.child("settings").values
    return {
        key: text
        for key, text in found.items()
        if isinstance(text, str) and _FINGERPRINT.fullmatch(text)
    }


@dataclass(frozen=True, slots=True)
class LostRecord:
    """Brokers that were lost, each with when it was missed, in ms since 1970."""

    since_ms: Mapping[str, int]

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        brokers = Fields.of_ours(path, data).items("brokers")[:MOST_LOST]
        return cls({each.broker_id("broker"): each.count("sinceMs") for each in brokers})

    def encode(self) -> bytes:
        """The payload."""
        rows = [{"broker": each, "sinceMs": at_ms} for each, at_ms in self.since_ms.items()]
        return encode(with_format_version({"brokers": rows}))


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A heartbeat whose commit proves that the writer's session lived when it was sent."""

    nonce: str
    count: int

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        return cls(fields.text("nonce"), fields.integer("count"))

    def encode(self) -> bytes:
        """The payload."""
        return encode(with_format_version({"nonce": self.nonce, "count": self.count}))


@dataclass(frozen=True, slots=True)
class LeadEpoch:
    """The newest epoch of an election, and the broker that it was made for."""

    epoch: int
    broker_id: str

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        return cls(fields.integer("epoch"), fields.text("brokerId"))

    def encode(self) -> bytes:
        """The payload."""
        return encode(with_format_version({"epoch": self.epoch, "brokerId": self.broker_id}))


@dataclass(frozen=True, slots=True)
class MoveNode:
    """The reservation of one move.

    ``epoch`` is that of the leader that ordered or adopted it, ``token`` that of the owner which
    is to release, ``ring_version`` the data version of the local policies it was decided on, and
    ``deadline_ms`` is in ms since 1970. ``traceparent`` is the trace that it belongs to, or empty.
    """

    move_id: str
    bundle: Bundle
    epoch: int
    from_broker: str
    token: int
    to_broker: str
    deadline_ms: int
    ring_version: int
    traceparent: str = ""

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord, NewerVersion: it does not fit; a newer release wrote it.
        """
        fields = Fields.of_ours(path, data)
        return cls(
            fields.text("id"),
            fields.parsed("bundle", Bundle.parse),
            fields.integer("epoch"),
            fields.text("from"),
            fields.integer("token"),
            fields.text("to"),
            fields.integer("deadlineMs"),
            fields.integer("ringVersion"),
            fields.text("traceparent", ""),
        )

    def encode(self) -> bytes:
        """The payload."""
        return encode(
            with_format_version(
                {
                    "id": self.move_id,
                    "bundle": str(self.bundle),
                    "epoch": self.epoch,
                    "from": self.from_broker,
                    "token": self.token,
                    "to": self.to_broker,
                    "deadlineMs": self.deadline_ms,
                    "ringVersion": self.ring_version,
                    "traceparent": self.traceparent or None,
                },
            ),
        )


# The node by which a Pulsar cluster coordinates the migration of its metadata to another store.
#
# Docs: pulsar-metadata-migration.


# Before a migration, and after one that failed: the brokers read and write this store.
_AT_REST: Final = frozenset({"NOT_STARTED", "FAILED"})
_COMPLETED: Final = "COMPLETED"


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """How far a migration is.

    Attributes:
        phase: Pulsar's name of it; one that is unknown here counts as a migration under way.
        target_url: the other store; empty if the node does not name it.
    """

    phase: str
    target_url: str = ""

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        return cls(fields.text("phase"), fields.text("targetUrl", ""))

    @property
    def outdates_store(self) -> bool:
        """Whether the brokers have stopped writing to the store that has this node."""
        return self.phase not in _AT_REST

    @property
    def is_completed(self) -> bool:
        """Whether the brokers use the other store."""
        return self.phase == _COMPLETED
