"""The declarations of all settings, collected from the fields of the subjects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from broker_ctl.settings.schema import Setting, unit_of
from broker_ctl.settings.values import ValueKind, kind_of


@dataclass(frozen=True, slots=True)
class Declaration:
    """The complete declaration of one setting.

    Attributes:
        subject: field of `Settings` that holds the subject.
        name: field of the subject.
    """

    subject: str
    name: str
    setting: Setting
    kind: ValueKind
    default: object

    @property
    def key(self) -> str:
        """The key in broker.conf."""
        return self.setting.key

    @property
    def unit(self) -> str:
        """Unit of the value and of its text; empty if there is none."""
        return unit_of(self.name)

    @property
    def off(self) -> object:
        """The value of a setting that names nothing."""
        return () if isinstance(self.default, tuple) else None

    def parse(self, text: str) -> object:
        """Parse a text; an empty one means the default or, for some settings, none.

        Raises:
            ValueError: says what is wrong, and what is allowed.
        """
        if not text:
            return self.off if self.setting.is_off_when_empty else self.default
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
