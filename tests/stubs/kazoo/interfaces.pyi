from typing import Any

class IAsyncResult:
    def get(self, block: bool = ..., timeout: float | None = ...) -> Any: ...
