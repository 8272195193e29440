"""The declarations, gathered from the subjects' fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from broker_ctl.settings.schema import Setting, unit_of
from broker_ctl.settings.values import Kind, kind_of


@dataclass(frozen=True, slots=True)
class Declaration:
    """One setting, whole.

    Attributes:
        subject: field of `Settings` that holds it.
        name: field of the subject.
    """

    subject: str
    name: str
    setting: Setting
    kind: Kind
    default: object

    @property
    def key(self) -> str:
        """Name in broker.conf."""
        return self.setting.key

    @property
    def unit(self) -> str:
        """Unit of the value, which is that of the text too; empty where there is none."""
        return unit_of(self.name)

    def parse(self, text: str) -> object:
        """The value of a text; an empty one asks for the default, or for nothing at all.

        Raises:
            ValueError: what is wrong, and what is allowed.
        """
        if not text:
            return None if self.setting.is_off_when_empty else self.default
        try:
            if not text.isprintable():
                raise ValueError("unprintable characters")
            return self.kind.parse(text)
        except ValueError as error:
            detail = f"{error}; " if str(error) else ""
            raise ValueError(f"{detail}allowed: {self.kind.allowed}") from error


def declared(subjects: Mapping[str, type[Any]]) -> Iterator[Declaration]:
    """All settings of the subjects, in the order of their fields."""
    for subject, kind in subjects.items():
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            hint, setting = get_args(hints[field.name])
            yield Declaration(subject, field.name, setting, kind_of(hint, setting), field.default)
