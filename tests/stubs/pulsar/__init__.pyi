from collections.abc import Callable
from enum import Enum

class Result(Enum):
    Ok = 0
    NotAllowedError = 40

class LoggerLevel(Enum):
    Warn = 2
    Error = 3

class InitialPosition(Enum):
    Earliest = 1

class PulsarException(Exception): ...

class ConsoleLogger:
    def __init__(self, log_level: LoggerLevel = ...) -> None: ...

class FileLogger:
    def __init__(self, log_level: LoggerLevel, log_file: str) -> None: ...

class MessageId: ...

class Message:
    def data(self) -> bytes: ...
    def topic_name(self) -> str: ...

class Producer:
    def send(self, content: bytes) -> MessageId: ...
    def send_async(
        self, content: bytes, callback: Callable[[Result, MessageId], object] | None
    ) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

class Consumer:
    def receive(self, timeout_millis: int | None = ...) -> Message: ...
    def acknowledge(self, message: Message) -> None: ...
    def close(self) -> None: ...

class Client:
    def __init__(
        self,
        service_url: str,
        *,
        operation_timeout_seconds: int = ...,
        io_threads: int = ...,
        message_listener_threads: int = ...,
        logger: ConsoleLogger | FileLogger | None = ...,
    ) -> None: ...
    def create_producer(
        self,
        topic: str,
        *,
        send_timeout_millis: int = ...,
        max_pending_messages: int = ...,
        block_if_queue_full: bool = ...,
        batching_enabled: bool = ...,
        batching_max_publish_delay_ms: int = ...,
    ) -> Producer: ...
    def subscribe(
        self,
        topic: str | list[str],
        subscription_name: str,
        *,
        initial_position: InitialPosition = ...,
        message_listener: Callable[[Consumer, Message], object] | None = ...,
    ) -> Consumer: ...
    def close(self) -> None: ...
