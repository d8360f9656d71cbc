"""The one error that is a user's mistake and not a bug."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input: one line that names the value and what would be right. The command line exits with
    2."""


def nearest_name(name: str, known: Iterable[str], others: str) -> str:
    """What to type instead of an unknown name: the nearest known one, if any, and `others`.

    >>> nearest_name("rnig", ["ring"], "simctl algos lists them")
    "did you mean 'ring'? (simctl algos lists them)"
    >>> nearest_name("?", ["ring"], "simctl algos lists them")
    'simctl algos lists them'
    """
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}? ({others})" if near else others
