from logging import Logger

from pulsar import Result

class PulsarException(Exception):
    def error(self) -> Result: ...

class Producer: ...

class Client:
    def __init__(
        self,
        service_url: str,
        *,
        operation_timeout_seconds: int = ...,
        logger: Logger | None = ...,
        tls_trust_certs_file_path: str | None = ...,
    ) -> None: ...
    async def create_producer(self, topic: str) -> Producer: ...
    async def get_topic_partitions(self, topic: str) -> list[str]: ...
    async def close(self) -> None: ...
