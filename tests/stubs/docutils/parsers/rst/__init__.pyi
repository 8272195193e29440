from collections.abc import Sequence
from typing import ClassVar

class DirectiveError(Exception): ...

class Directive:
    has_content: ClassVar[bool]
    required_arguments: ClassVar[int]
    optional_arguments: ClassVar[int]
    final_argument_whitespace: ClassVar[bool]
    arguments: list[str]
    content: Sequence[str]
    def error(self, message: str) -> DirectiveError: ...
