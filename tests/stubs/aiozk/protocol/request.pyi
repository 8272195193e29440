from typing import Any, ClassVar

class Part:
    parts: ClassVar[Any]
    def __init__(self, **kwargs: object) -> None: ...
    def render(self) -> tuple[str, list[Any]]: ...

class Request(Part):
    opcode: ClassVar[Any]
    def serialize(self, xid: int | None = None) -> bytes: ...
