from collections.abc import Iterator, Mapping
from typing import Any

class ValidationError(Exception):
    message: str
    json_path: str

class Draft202012Validator:
    def __init__(self, schema: Mapping[str, Any]) -> None: ...
    def iter_errors(self, instance: Any) -> Iterator[ValidationError]: ...
