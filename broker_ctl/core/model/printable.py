"""Text from outside, without what a reader does not see."""


def printable(text: str) -> str:
    """With a question mark for each control character and each other invisible one."""
    return "".join(each if each.isprintable() else "?" for each in text)
