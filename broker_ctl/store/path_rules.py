"""What ZooKeeper accepts as a path, whichever store it goes to; and steps of paths."""

import re
from typing import Final

from broker_ctl.errors import InvalidPath

ROOT: Final = "/"
# Control characters, surrogates and private use, specials: refused by every ZooKeeper server.
# It looks at UTF-16 units, so whatever lies beyond the basic plane is a surrogate to it.
_RANGES: Final = "\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff"
_FORBIDDEN: Final = re.compile(f"[{_RANGES}]")
# All of the rules at once: this is on the way of every request.
_USABLE: Final = re.compile(rf"(?:/(?!\.\.?(?:/|\Z))[^/{_RANGES}]+)+")


def is_usable_name(name: str) -> bool:
    """Whether ``name`` may be one step of a path."""
    if not name or "/" in name or name in {".", ".."}:
        return False
    return _FORBIDDEN.search(name) is None


def validate(path: str) -> None:
    """Refuse what a server would refuse.

    Raises:
        InvalidPath: relative, an empty or a dotted step, a trailing slash, a forbidden character.
    """
    if _USABLE.fullmatch(path) or path == ROOT:
        return
    if not path.startswith("/"):
        raise InvalidPath(f"{path!r}: a path starts with /")
    for name in path[1:].split("/"):
        if not is_usable_name(name):
            raise InvalidPath(f"{path!r}: {name!r} cannot be a step of a path")


def parent_of(path: str) -> str:
    """The path one step up; the root is its own parent."""
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    """The last step of a path."""
    return path.rpartition("/")[2]


def ancestors_of(path: str) -> list[str]:
    """All paths above ``path`` but the root, the highest first."""
    steps = path.split("/")[1:-1]
    return ["/" + "/".join(steps[: depth + 1]) for depth in range(len(steps))]


def is_at_or_below(root: str, path: str) -> bool:
    """Whether ``path`` is ``root`` or lies in its subtree."""
    return root in {ROOT, path} or path.startswith(root + "/")
