from typing import TypedDict

class ExtensionMetadata(TypedDict, total=False):
    parallel_read_safe: bool
