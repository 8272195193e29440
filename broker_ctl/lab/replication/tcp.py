"""The network of simulated broker processes: frames over TCP, with mutual TLS.

Messages of simulated broker processes and their clients: JSON, one object per frame.

A follower to the leader, as often as it likes, at least every `BEAT_S`::

    {"api": "follow", "follower": ID, "topics": {NAME: TOPIC_ID},
     "named": [[TOPIC, PARTITION, LEADER_EPOCH, END_OFFSET, LAST_EPOCH]], "forgotten": [[TOPIC, P]]}

and the leader to it on the same connection, at least every `BEAT_S`::

    {"data": [[TOPIC, PARTITION, LEADER_EPOCH, HIGH_WATERMARK, START_OFFSET, [[EPOCH, VALUE]]]],
     "cuts": [[TOPIC, PARTITION, LEADER_EPOCH, AT_OFFSET, EPOCH, END_OFFSET]]}

A cut: the log that ended at ``AT_OFFSET`` is not a prefix of the leader's, which has ``EPOCH``, the
largest one up to the follower's last, up to ``END_OFFSET``.

A client, each request with a number that its answer repeats; several may be under way::

    {"api": "produce", "id": N, "topic", "partition", "leader_epoch": N or -1, "acks": "all" or "1",
     "values": [VALUE], "timeout_ms"}          -> {"offset", "leader_epoch"}
    {"api": "consume", "id": N, "topic", "partition", "leader_epoch": N or -1, "offset",
     "most"}                                   -> {"records": [[EPOCH, VALUE]], "high_watermark"}
    {"api": "held", "id": N, "after": [TOPIC, P] or null}  -> {"replicas": [HELD], "is_all"}
    {"api": "read", "id": N, "topic", "partition", "offset", "most"}  -> {"records"}

    HELD  [TOPIC, PARTITION, TOPIC_ID, LEADER_EPOCH, ROLE, HIGH_WATERMARK, END_OFFSET, [ISR],
           [[EPOCH, START_OFFSET]]]

or ``{"id": N, "error": CLASS, "reason": TEXT}``; ``DataPlaneUnreachable`` says that it is not known
whether the records are committed. ``held`` and ``read`` return all records, committed or not: they
are for checks. A VALUE is a text of the characters 0 to 255, each of which is a byte.

Without TLS there is no authentication, and the port is one of loopback. With it, a follower needs
the certificate of its own number; see `tls`.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from broker_ctl.addresses import Server, look_up
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.stream_listener import StreamListener
from broker_ctl.security.certificates.peer_certificate import replica_broker_uri

# The network of simulated broker processes and their clients: frames of bytes, both ways.
#
# It is a protocol, so that deterministic tests run it in memory; the live one is
# `replication/tcp.py`.


# A longer frame ends its connection.
MAX_FRAME_BYTES: Final = 8 << 20


class ChannelClosed(Exception):
    """The other end is gone, or was never reachable. Never leaves this package."""


class Channel(Protocol):
    """One connection. Frames arrive whole, once and in order, until it is closed."""

    @property
    def proven_brokers(self) -> frozenset[int] | None:
        """Numbers of brokers that the certificate of the other end proves; None: without TLS."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send a frame; waits while the other end does not read.

        Raises:
            ChannelClosed: the frame will not arrive.
        """
        ...

    async def receive(self) -> bytes:
        """The next frame; waits as long as it takes.

        Raises:
            ChannelClosed: the other end closed, or the frame was too long.
        """
        ...

    def close(self) -> None:
        """Close the connection. May be repeated."""
        ...


class ReplicaListener(Protocol):
    """A listening address."""

    async def close(self) -> None:
        """Accept no more connections; servers close the accepted ones."""
        ...


class Network(Protocol):
    """Addresses are ``host:port``."""

    async def listen(
        self, address: str, serve: Callable[[Channel], Awaitable[None]]
    ) -> ReplicaListener:
        """Run ``serve`` for each accepted connection, and close the channel when it returns.

        Raises:
            OSError: the address is taken, or not ours.
        """
        ...

    async def connect(self, address: str) -> Channel:
        """A connection.

        Raises:
            ChannelClosed: no listener at the address.
        """
        ...


# A peer that is silent for several beats is considered gone.
BEAT_S: Final = 1.0
SILENCE_S: Final = 5 * BEAT_S
# Bounds of one frame: partitions that it names, records of each, and bytes of values, which the
# last record may exceed by as many again. As JSON a byte takes up to six.
MAX_PARTITIONS: Final = 2_000
MAX_RECORDS: Final = 1_000
MAX_VALUES_BYTES: Final = 1 << 19
# Matches any leader epoch.
ANY_EPOCH: Final = -1

FOLLOW: Final = "follow"
PRODUCE: Final = "produce"
CONSUME: Final = "consume"
HELD: Final = "held"
READ: Final = "read"

ACKS_ALL: Final = "all"
ACKS_LEADER: Final = "1"


class HeldLog(NamedTuple):
    """A replica as its broker process shows it, for checks.

    Attributes:
        role: ``leader``, ``follower``, ``none`` or ``failed``.
        isr: as its leader knows it; empty elsewhere.
        epoch_starts: each leader epoch that has records, and the offset of its first one.
    """

    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    role: str
    high_watermark: int
    end_offset: int
    isr: tuple[int, ...]
    epoch_starts: tuple[tuple[int, int], ...]


def record_rows(records: Iterable[LogRecord]) -> list[list[Any]]:
    """Rows of records in a frame."""
    return [[epoch, value.decode("latin-1")] for epoch, value in records]


def records_of(rows: Iterable[Sequence[Any]]) -> list[LogRecord]:
    """The way back.

    Raises:
        ValueError: they do not fit.
    """
    return [LogRecord(int(epoch), str(text).encode("latin-1")) for epoch, text in rows]


def held_row(held: HeldLog) -> list[Any]:
    """Row of a replica in a frame."""
    return [*held.partition, *held[1:]]


def held_of(row: Sequence[Any]) -> HeldLog:
    """The way back.

    Raises:
        ValueError: it does not fit.
    """
    topic, partition, topic_id, leader_epoch, role, watermark, end, isr, starts = row
    return HeldLog(
        TopicPartition(topic, partition),
        topic_id,
        leader_epoch,
        role,
        watermark,
        end,
        tuple(isr),
        tuple((epoch, start) for epoch, start in starts),
    )


# Mutual TLS on the replication port: the certificate of each broker proves its number.
#
# The certificate of broker 7 of the cluster ``prod`` has the URI
# ``spiffe://prod/replica-broker/7`` among its subject alternative names (SPIFFE ID, section 2 of
# the SPIFFE standard). A client that is not a broker needs any certificate of the same authority.


@dataclass(frozen=True, slots=True)
class ReplicationTls:
    """TLS of both directions.

    Attributes:
        cluster: trust domain; a certificate of another cluster proves nothing.
        serving: requires and verifies a certificate of each client.
        calling: verifies that of the server, and presents the own one.
    """

    cluster: str
    serving: ssl.SSLContext
    calling: ssl.SSLContext

    def brokers_of(self, peer: ssl.SSLObject | None) -> frozenset[int]:
        """The numbers of brokers that the verified certificate of a peer proves."""
        names = (peer.getpeercert() or {}).get("subjectAltName", ()) if peer is not None else ()
        return frozenset(_numbers(self.cluster, names))


def _numbers(cluster: str, names: Iterable[Any]) -> Iterable[int]:
    prefix = replica_broker_uri(cluster, 0)[:-1]
    for kind, value in names:
        number = value.removeprefix(prefix)
        if kind == "URI" and value.startswith(prefix) and number.isascii() and number.isdigit():
            yield int(number)


# The network of replicas over TCP: each frame has a big-endian length of four bytes before it.


_LENGTH_BYTES: Final = 4
# Half of it for the lookup of the name, half for its addresses.
_CONNECT_S: Final = SILENCE_S - BEAT_S


class TcpChannel:
    """`Channel` over one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tls: ReplicationTls | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._proven = None if tls is None else tls.brokers_of(writer.get_extra_info("ssl_object"))

    @property
    def proven_brokers(self) -> frozenset[int] | None:
        """Brokers whose number the certificate of the other end proves."""
        return self._proven

    async def send(self, frame: bytes) -> None:
        """Send a frame; returns when the kernel has room for more."""
        if len(frame) > MAX_FRAME_BYTES:
            raise ChannelClosed(f"a frame of {len(frame)} bytes is too long")
        try:
            self._writer.write(len(frame).to_bytes(_LENGTH_BYTES) + frame)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> bytes:
        """The next frame."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
            if length > MAX_FRAME_BYTES:
                self.close()
                raise ChannelClosed(f"a frame of {length} bytes is too long")
            return await self._reader.readexactly(length)
        except (OSError, EOFError) as error:
            raise ChannelClosed(str(error)) from error

    def close(self) -> None:
        """Close the connection, even if the other end does not read: unsent data is dropped."""
        self._writer.transport.abort()


class TcpListener:
    """`Listener` at one port."""

    def __init__(
        self, serve: Callable[[Channel], Awaitable[None]], tls: ReplicationTls | None = None
    ) -> None:
        self._serve = serve
        self._tls = tls
        self._listener = StreamListener(self._run, "replica connections")

    async def open(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not ours.
        """
        await self._listener.open(host, port, None if self._tls is None else self._tls.serving)

    async def close(self) -> None:
        """Accept no more connections, and end those that are served."""
        await self._listener.close()

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = TcpChannel(reader, writer, self._tls)
        try:
            await self._serve(channel)
        finally:
            channel.close()


class TcpNetwork:
    """`Network` of a process.

    Args:
        tls: None: connections are neither encrypted nor authenticated.
    """

    def __init__(self, tls: ReplicationTls | None = None) -> None:
        self._tls = tls

    async def listen(
        self, address: str, serve: Callable[[Channel], Awaitable[None]]
    ) -> TcpListener:
        """Listen at an address."""
        listener = TcpListener(serve, self._tls)
        await listener.open(*_parse_address(address))
        return listener

    async def connect(self, address: str) -> TcpChannel:
        """Connect to an address: to the first of those of its name with which it succeeds."""
        failures: list[str] = []
        try:
            host, port = _parse_address(address)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        servers = await look_up(host, port, _CONNECT_S / 2)
        for server in servers:
            try:
                async with asyncio.timeout(_CONNECT_S / 2 / len(servers)):
                    return await self._connect(server)
            except TimeoutError:
                failures.append(f"{server}: timed out")
            except OSError as error:
                failures.append(f"{server}: {error}")
        raise ChannelClosed("; ".join(failures))

    async def _connect(self, server: Server) -> TcpChannel:
        context = None if self._tls is None else self._tls.calling
        name = server.host if context is not None else None
        reader, writer = await asyncio.open_connection(
            server.address, server.port, ssl=context, server_hostname=name
        )
        return TcpChannel(reader, writer, self._tls)


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise OSError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)
