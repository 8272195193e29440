"""Message classes, built from the tables when this module is imported."""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from broker_ctl.surface.binary.enums import CommandType
from broker_ctl.surface.binary.tables import COMMANDS, MESSAGES, REQUEST_IDS, Field

_PACKAGE: Final = "broker_ctl.pulsar"
_Proto = descriptor_pb2.FieldDescriptorProto
_LABELS: Final = {
    "optional": _Proto.LABEL_OPTIONAL,
    "required": _Proto.LABEL_REQUIRED,
    "repeated": _Proto.LABEL_REPEATED,
}
# An enum travels as an int32 does. Read as a number, a value of a newer release stays visible,
# where protobuf would put it among the unknown fields.
_SCALARS: Final = {
    "string": _Proto.TYPE_STRING,
    "bytes": _Proto.TYPE_BYTES,
    "int32": _Proto.TYPE_INT32,
    "uint32": _Proto.TYPE_UINT32,
    "uint64": _Proto.TYPE_UINT64,
    "bool": _Proto.TYPE_BOOL,
    "enum": _Proto.TYPE_INT32,
}


def field_of(kind: CommandType) -> str:
    """What a command is called in BaseCommand. Where the tables have no name, any will do."""
    return COMMANDS[kind][0] if kind in COMMANDS else kind.name.lower()


def _all_messages() -> dict[str, tuple[Field, ...]]:
    """Those of the tables; one for requests of which the id is read alone; BaseCommand."""
    commands = {kind: message for kind, (_, message) in COMMANDS.items()}
    requests = {kind: f"RequestId{number}" for kind, number in REQUEST_IDS.items()}
    fields = (Field(field_of(k), k, message) for k, message in (commands | requests).items())
    return {
        **MESSAGES,
        **{f"RequestId{n}": (Field("request_id", n, "uint64"),) for n in REQUEST_IDS.values()},
        "BaseCommand": (Field("type", 1, "enum", "required"), *fields),
    }


def _declare(message: descriptor_pb2.DescriptorProto, field: Field) -> None:
    declared = message.field.add(name=field.name, number=field.number, label=_LABELS[field.label])
    if field.kind in _SCALARS:
        declared.type = _SCALARS[field.kind]
    else:
        declared.type = _Proto.TYPE_MESSAGE
        declared.type_name = f".{_PACKAGE}.{field.kind}"
    if field.default:
        declared.default_value = field.default


def _build() -> dict[str, Any]:
    # A pool of its own: another library of this process may have brought Pulsar's messages.
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(
        name="broker_ctl/pulsar.proto", package=_PACKAGE, syntax="proto2"
    )
    messages = _all_messages()
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _declare(message, field)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in messages
    }


# Their fields are known when the program runs, so no type checker can know them.
CLASSES: Final[dict[str, Any]] = _build()
BaseCommand: Final = CLASSES["BaseCommand"]
