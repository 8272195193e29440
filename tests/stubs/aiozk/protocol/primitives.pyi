from typing import Any

class Int: ...
class Long: ...

class Buffer:
    @classmethod
    def parse(cls, buff: bytes, offset: int) -> tuple[bytes | None, int]: ...

class UString:
    @classmethod
    def parse(cls, buff: bytes, offset: int) -> tuple[str, int]: ...

class Vector:
    @classmethod
    def of(cls, part_class: type[Any]) -> type[VectorOf]: ...

class VectorOf:
    @classmethod
    def parse(cls, buff: bytes, offset: int) -> tuple[list[Any], int]: ...
