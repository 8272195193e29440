"""Makes text from outside safe to show: without control and invisible characters."""


def printable(text: str) -> str:
    """Replace each control character, and each other invisible one, by a question mark."""
    return "".join(each if each.isprintable() else "?" for each in text)
