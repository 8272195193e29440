"""One list held against another: one test that names all that do not hold, in place of one each."""

from collections.abc import Callable, Iterable
from typing import Any


def for_each(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """As `pytest.mark.parametrize`, for a check without fixtures; all faults are in one message."""

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            rows = [case if isinstance(names, tuple) else (case,) for case in cases]
            assert rows, "there is nothing to check"
            keys = names if isinstance(names, tuple) else (names,)
            faults = []
            for row in rows:
                try:
                    check(**dict(zip(keys, row, strict=True)))
                except Exception as error:  # noqa: BLE001  whatever it is, with its row
                    faults.append(f"{', '.join(map(str, row))}: {type(error).__name__}: {error}")
            assert not faults, f"{len(faults)} of {len(rows)}:\n" + "\n".join(faults)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        return test

    return decorate
