"""What a daemon is made of, as plain values: everything that its parts hold, settings left out.

Two builds under settings that differ in one key differ in what that key is wired to, and in
nothing else. A place is named by the class and the field that holds the value, so that parts may
be moved about.
"""

import asyncio
import logging
import random
import ssl
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from broker_ctl.attach.attached import Attached
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.security.rotation.reloadable import NewestSecret, ReloadableContext
from broker_ctl.settings.root import SUBJECTS, Settings
from broker_ctl.settings.subjects.dataplane import DataPlaneKind

# By place: the owner's class with the field, and the value as text.
Built = Mapping[str, tuple[str, str]]

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Enum, Path)
_SEVERAL: Final = (list, tuple, deque, set, frozenset)
_LEFT_OUT: Final[tuple[type[Any], ...]] = (
    Settings,
    *SUBJECTS.values(),
    type,
    ModuleType,
    logging.Logger,
)
# The time of the build; and what others are shown of all settings, by which nothing is decided.
_NOISE: Final = frozenset(
    {
        "BrokerLoad.started_ms",
        "Coordination.fingerprints",
        "Registration.settings",
        "Registration.started_ms",
    }
)


def build(settings: Settings) -> Built:
    """Every part of the daemon that the settings ask for, not started."""

    async def make() -> Built:
        environment = Environment(SystemClock(), random.Random(1))
        if settings.dataplane.kind is DataPlaneKind.PULSAR:
            return seen(Attached(settings, environment))
        return seen(Assembly(settings, environment))

    return asyncio.run(make())


def seen(root: object) -> Built:
    """As it is now; what is derived from the settings is asked for."""
    found: dict[str, tuple[str, str]] = {}
    known: dict[int, object] = {}
    todo: deque[tuple[Any, str, str]] = deque([(root, "", "")])
    while todo:
        value, path, label = todo.popleft()
        if isinstance(value, NewestSecret):
            value = value()
        if isinstance(value, _PLAIN):
            found[path] = label, repr(value)
            continue
        if isinstance(value, _SEVERAL) or _kind(value).is_mapping:
            # There is one empty tuple, which many places share.
            found[f"{path}#"] = label, str(len(value))
        # Two places that share a value may differ tomorrow; what lives is gone through once.
        if not isinstance(value, _LEFT_OUT) and (id(value) not in known or _is_value(value)):
            # Kept, or another object could have its id.
            known[id(value)] = value
            todo.extend(_parts(value, path, label, found))
        elif _is_ours(value):
            found[f"{path}:"] = label, type(value).__qualname__
    return found


def changed(one: Built, other: Built) -> Counter[str]:
    """The places that differ, each with how often; of what is replaced, the place that holds it."""
    places: Counter[str] = Counter()
    for path in one.keys() | other.keys():
        label, _ = one.get(path) or other[path]
        if _is_changed(path, one, other) and label not in _NOISE:
            places[label] += 1
    return places


def _is_value(value: object) -> bool:
    """Rules and options: frozen, and of plain values or of others like them."""
    params = getattr(type(value), "__dataclass_params__", None)
    if params is None or not params.frozen:
        return False
    held = (getattr(value, field) for field in _fields(value))
    return all(isinstance(each, (*_PLAIN, tuple, frozenset)) or _is_value(each) for each in held)


def _is_changed(path: str, one: Built, other: Built) -> bool:
    if path in one and path in other:
        return one[path][1] != other[path][1]
    # A plain value in one of them, an object in the other.
    return f"{path}:" in one or f"{path}:" in other


def _is_ours(value: object) -> bool:
    return type(value).__module__.startswith("broker_ctl")


def _parts(
    value: Any, path: str, label: str, found: dict[str, tuple[str, str]]
) -> Iterator[tuple[object, str, str]]:
    if isinstance(value, ReloadableContext):
        value = value.newest()
    if isinstance(value, ssl.SSLContext):
        found[f"{path}:"] = label, "SSLContext"
        authorities = [each["serialNumber"] for each in value.get_ca_certs()]
        for field in ("minimum_version", "maximum_version", "verify_mode", "verify_flags"):
            yield getattr(value, field), f"{path}.{field}", f"{label}.{field}"
        yield str(authorities), f"{path}.authorities", f"{label}.authorities"
    elif isinstance(value, _SEVERAL):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield from ((item, f"{path}[{at}]", label) for at, item in enumerate(items))
    elif _kind(value).is_mapping:
        yield from ((item, f"{path}[{key}]", label) for key, item in value.items())
    elif isinstance(value, MethodType):
        yield value.__self__, f"{path}.self", label
    elif isinstance(value, FunctionType):
        yield from _of_function(value, path, label)
    elif _is_ours(value):
        name = type(value).__qualname__
        found[f"{path}:"] = label, name
        for field in _fields(value):
            yield getattr(value, field), f"{path}.{field}", f"{name}.{field}"


def _of_function(value: FunctionType, path: str, label: str) -> Iterator[tuple[object, str, str]]:
    if not value.__module__.startswith("broker_ctl"):
        return
    names, cells = value.__code__.co_freevars, value.__closure__ or ()
    for name, cell in zip(names, cells, strict=True):
        yield cell.cell_contents, f"{path}<{name}>", f"{label}<{name}>"
    # What DynamicConfiguration.derive made, or a question to what it holds now.
    is_derived = "derive" in value.__qualname__ or "current" in value.__code__.co_names
    if is_derived and not value.__code__.co_argcount:
        yield value(), f"{path}()", label


def _fields(value: Any) -> list[str]:
    names = _kind(value).slots.union(getattr(value, "__dict__", ()))
    return sorted(name for name in names if hasattr(value, name))


class _Kind(NamedTuple):
    """What decides how the values of a class are walked through."""

    is_mapping: bool
    slots: frozenset[str]


_KINDS: Final[dict[type[Any], _Kind]] = {}


def _kind(value: Any) -> _Kind:
    kind = type(value)
    if kind not in _KINDS:
        every = [each.__dict__.get("__slots__", ()) for each in kind.__mro__]
        slots = frozenset().union(*({one} if isinstance(one, str) else one for one in every))
        _KINDS[kind] = _Kind(issubclass(kind, Mapping), slots)
    return _KINDS[kind]
