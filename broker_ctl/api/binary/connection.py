"""One client: bytes in, bytes out, and how long they take.

    state      received                            action                     next state
    new        CONNECT, welcome, a place is free   CONNECTED                  connected
    new        CONNECT, welcome, no place is free  ERROR, left                closed
    new        CONNECT, not authenticated          ERROR, left, after a delay closed
    connected  anything, after its role expired    see `credentials`
    connected  nothing, and its role was revoked   ERROR, left                closed
    connected  PING                                PONG                       connected
    connected  PONG                                nothing                    connected
    connected  LOOKUP, PARTITIONED_METADATA        given to the workers       connected
    connected  GET_TOPICS_OF_NAMESPACE             given to the workers       connected
    connected  a request beyond the rate limits    ERROR for that request     connected
    connected  any other request, a newer one too  ERROR for that request     connected
    both       anything else, or no command        ERROR, left                closed
    new        nothing for `connect_limit_s`       ERROR, left                closed
    new        nothing, and too many newer wait    ERROR, left                closed
    connected  nothing for `keep_alive_s`          PING; the next time, ended closed
    closed     anything                            not read                   closed

`conversation` makes the replies; this module sends them. A closed client gets the reason: its last
frame is followed by the end of the stream, and for `linger_s` what it still sends is discarded. (To
close with bytes unread would reset the connection, and the client might never see that frame.)

Answers of one iteration of the loop are sent in one write. While a client does not read its
answers, has the maximum number of requests in progress, or has had its share of this iteration, the
server does not read from it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.clients import Clients
from broker_ctl.api.binary.conversation import (
    Challenge,
    Conversation,
    ConversationState,
    Enqueue,
    Leave,
    Resume,
)
from broker_ctl.api.binary.handshake import RefreshTimer
from broker_ctl.api.binary.replies import BinaryFrames, MalformedFrame
from broker_ctl.api.binary.workers import LookupRequest
from broker_ctl.security.certificates.peer_certificate import peer_certificate
from broker_ctl.security.client_limits import origin_of

COMMANDS_A_TURN: Final = 64


class BinaryConnection(asyncio.Protocol):
    """A client's socket."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._rules = clients.rules
        self._conversation = Conversation(
            clients.rules, clients.rates, clients.failures, clients.instruments.commands
        )
        self._loop = asyncio.get_running_loop()
        self._frames = BinaryFrames()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refresh = RefreshTimer(clients.rules.refresh_check_s, self._check_credentials)
        self._is_tls = False
        self._out: list[bytes] = []
        self._in_flight = 0
        self._is_choked = False  # the transport holds as much as it may
        self._is_waiting = False  # for its turn
        self._is_paused = False  # nothing is read
        self._is_pinged = False  # and has not answered since
        self._heard_s = self._loop.time()

    # What the server asks of it.

    def leave(self, parting: bytes = b"", delay_s: float = 0.0) -> None:
        """End the connection; what was answered, and ``parting``, still reach the client."""
        if delay_s:
            # Nothing is read meanwhile. It still counts as waiting for its CONNECT: where too many
            # do, the oldest leave at once.
            self._is_waiting = True
            self._watch(delay_s, partial(self.leave, parting))
            return
        transport = self._transport
        if self._conversation.state is ConversationState.CLOSED or transport is None:
            return
        self._conversation.state = ConversationState.CLOSED
        self._out.append(parting)
        self._flush()
        self._watch(self._rules.linger_s, self.abort)
        self._hold_or_read()
        if not transport.is_closing() and transport.can_write_eof():
            try:
                transport.write_eof()
            except OSError:
                # The client has reset the connection, and the transport has not read that yet.
                self.abort()

    def abort(self) -> None:
        """End the connection now."""
        self._conversation.state = ConversationState.CLOSED
        if self._transport is not None:
            self._transport.abort()

    def recheck(self) -> None:
        """End the connection if what the client has proven does not count any more."""
        parting = self._conversation.recheck()
        if parting is not None:
            self.leave(parting.frame)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's CONNECT."""
        # uvloop's transports are not subclasses of asyncio's: isinstance() would fail.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(self._rules.max_unsent_bytes)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        tls = transport.get_extra_info("ssl_object")
        self._conversation.certificate = peer_certificate(tls)
        late = self._conversation.leave("no CONNECT came in time")
        self._watch(self._rules.connect_limit_s, lambda: self.leave(late.frame))
        self._conversation.origin = origin_of(transport)
        self._clients.receive(self, self._conversation.origin)

    def data_received(self, data: bytes) -> None:
        """Handle the complete commands."""
        if self._conversation.state is ConversationState.CLOSED:
            return
        self._heard_s = self._loop.time()
        self._is_pinged = False
        self._frames.feed(data)
        self._take_all()

    def pause_writing(self) -> None:
        """The client does not read its answers: stop reading from it."""
        self._is_choked = True
        if self._conversation.state is not ConversationState.CLOSED:
            self._hold_or_read()
            self._watch(self._rules.keep_alive_s, self.abort)

    def resume_writing(self) -> None:
        """The client reads its answers again: resume reading from it."""
        self._is_choked = False
        if self._conversation.state is not ConversationState.CLOSED:
            self._watch(self._rules.keep_alive_s, self._check_silence)
            self._take_all()

    def connection_lost(self, _: Exception | None) -> None:
        """The socket is closed; answers to requests in progress are dropped."""
        self._conversation.state = ConversationState.CLOSED
        self._transport = None
        self._refresh.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._clients.forget(self)

    # Reading.

    @property
    def _has_room(self) -> bool:
        is_held_up = self._is_choked or self._is_waiting
        return not is_held_up and self._in_flight < self._rules.max_in_flight

    def _take_all(self) -> None:
        """Handle commands while there is room for their answers, and until its share is used up."""
        try:
            if self._take_turn():
                return
        except MalformedFrame as error:
            self.leave(self._conversation.malformed(error).frame)
            return
        if self._has_room:
            self._is_waiting = True
            self._clients.workers.wait_turn(self._go_on)
        self._hold_or_read()

    def _take_turn(self) -> bool:
        """Whether nothing that was read is left, or the connection has ended.

        Raises:
            MalformedFrame: what was read is not a command.
        """
        workers, next_command = self._clients.workers, self._frames.next
        find = self._ready_answers()
        began_s, is_answered = self._clients.ready.now_s(), False
        try:
            for _ in range(COMMANDS_A_TURN):
                if not self._has_room or not workers.has_room:
                    return False
                command = next_command()
                if command is None:
                    self._hold_or_read()
                    return True
                if find is not None and (frame := find(command)) is not None:
                    self._send(frame)
                    is_answered = True
                    continue
                self._take(command)
                if self._conversation.state is ConversationState.CLOSED:
                    return True
                # Whatever it was, the next one is judged by what it has made of this client.
                find = self._ready_answers()
        finally:
            if is_answered:
                self._clients.ready.count_ready(began_s)
        return False

    def _ready_answers(self) -> Callable[[bytes], bytes | None] | None:
        """Finds the answer to a command, until this connection or its server waits."""
        conversation = self._conversation
        if not conversation.may_be_ready:
            return None
        found = self._clients.ready.ready(conversation.client, is_tls=self._is_tls)
        return None if found is None else found.find

    def _go_on(self) -> None:
        self._is_waiting = False
        if self._conversation.state is not ConversationState.CLOSED:
            self._take_all()

    def _take(self, command: bytes) -> None:
        is_new = self._conversation.state is ConversationState.NEW
        match self._conversation.receive(command):
            case Enqueue(kind, message, data):
                self._in_flight += 1
                client, origin = self._conversation.client, self._conversation.origin
                self._clients.workers.put(
                    LookupRequest(kind, message, data, self._is_tls, self._reply, client, origin)
                )
            case Leave(parting, delay_s):
                self.leave(parting, delay_s)
            case Challenge(frame):
                self._send(frame)
                self._refresh.restart()
            case Resume(commands):
                for held in commands:
                    if self._conversation.state is not ConversationState.CLOSED:
                        self._take(held)
            case bytes(frame):
                if is_new and not self._clients.admit(self):
                    return
                self._send(frame)
                if is_new:
                    self._watch(self._rules.keep_alive_s, self._check_silence)
                    self._refresh.restart()

    def _hold_or_read(self) -> None:
        is_paused = self._conversation.state is not ConversationState.CLOSED and not self._has_room
        transport = self._transport
        if is_paused is self._is_paused or transport is None or transport.is_closing():
            return
        self._is_paused = is_paused
        if is_paused:
            transport.pause_reading()
        else:
            self._heard_s = self._loop.time()
            transport.resume_reading()

    # Writing.

    def _reply(self, frame: bytes) -> None:
        self._in_flight -= 1
        if self._conversation.state is not ConversationState.CLOSED:
            self._send(frame)
            if self._is_paused:
                self._take_all()

    def _send(self, frame: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    # Time.

    def _watch(self, after_s: float, check: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, check)

    def _check_credentials(self) -> None:
        has_ended = self._conversation.state is ConversationState.CLOSED
        if has_ended or not self._conversation.credentials.can_expire:
            return
        match self._conversation.check_credentials():
            case Challenge(frame):
                self._send(frame)
            case Leave(parting):
                self.leave(parting)
                return
        self._refresh.restart()

    def _check_silence(self) -> None:
        due_s = self._heard_s + self._rules.keep_alive_s - self._loop.time()
        if self._is_paused:
            # The server has not read data that the client sent meanwhile.
            due_s = self._rules.keep_alive_s
        elif due_s <= 0:
            if self._is_pinged:
                self.abort()
                return
            self._is_pinged = True
            self._send(replies.PING)
            due_s = self._rules.keep_alive_s
        self._watch(due_s, self._check_silence)
