"""The one error that is a user's mistake and not a bug, and how messages spell locations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

_SHOWN = 60
"""Characters of a value in a message, at most."""


class InputError(ValueError):
    """Bad input: one line that names the value and what would be right. The command line exits with
    2."""


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Name a place in front of the message of an InputError.

    >>> with naming("plan.csv line 3"):
    ...     raise InputError("expected a number")
    Traceback (most recent call last):
    topologies.errors.InputError: plan.csv line 3: expected a number
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


@contextmanager
def refused(text: str) -> Iterator[None]:
    """Turn an exception of foreign code into InputError: `text`, and the type and the first line of
    the exception."""
    try:
        yield
    except (Exception, SystemExit) as error:
        line = str(error).strip().partition("\n")[0][:200]
        raise InputError(f"{text}: {type(error).__name__}: {line}") from None


def shown(value: object) -> str:
    """A value of a file in a message: short and on one line, however large or deep it is.

    >>> shown("ring"), shown(None), shown([[1, 2]]), shown({"a": 3})
    ("'ring'", 'none', 'a list', 'a mapping')
    """
    if isinstance(value, dict | list | tuple | set | frozenset):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return f"a number of more than {_SHOWN} digits"
    text = repr(value[:_SHOWN]) if isinstance(value, str | bytes) else str(value).lower()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def as_text(value: object) -> str:
    """A text as it is, and any other value as in a message."""
    return value if isinstance(value, str) else shown(value)


def nearest_name(name: str, known: Iterable[str], choices: str) -> str:
    """What to type instead of an unknown name: the nearest known one, if any, and `others`.

    >>> nearest_name("rnig", ["ring"], "simctl list algos lists them")
    "did you mean 'ring'? (simctl list algos lists them)"
    >>> nearest_name("?", ["ring"], "simctl list algos lists them")
    'simctl list algos lists them'
    """
    hint = did_you_mean(name, known)
    return f"{hint}({choices})" if hint else choices


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest known name, with a blank at its end; empty if none is near.

    Capitals do not count.

    >>> did_you_mean("Rnig", ["RING", "tree"])
    "did you mean 'RING'? "
    """
    names = {candidate.lower(): candidate for candidate in known}
    near = [key for key in names if name and key in name.lower().split("_")]
    near = near or get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {names[near[0]]!r}? " if near else ""


def unknown_option(name: str, key: str, options: Mapping[str, str]) -> str:
    """The message for an option that `name` does not have. `options` says what each one does.

    >>> print(unknown_option("ring", "bandwith", {"bandwidth": "β of a link", "gap": "g"}))
    ring has no option 'bandwith': did you mean 'bandwidth'? write ring:key=value,... with
      bandwidth  β of a link
      gap        g
    """
    if not options:
        return f"{name} has no options, got {key[:80]!r}"
    width = max(map(len, options))
    lines = [f"  {option:<{width}}  {meaning}" for option, meaning in options.items()]
    hint = did_you_mean(key, options)
    return "\n".join(
        [f"{name} has no option {key[:80]!r}: {hint}write {name}:key=value,... with", *lines]
    )


Location = tuple[int | str, ...]
"""Where in a document: ("links", 3, "bandwidth")."""
Place = Callable[[Location], str]
"""A location in words, with the name of the file first."""

_DEEPEST = 16


def spelling(location: Location) -> str:
    """A location in words.

    >>> spelling(("links", 3, "bandwidth")), spelling(("a key",))
    ('links[3].bandwidth', "'a key'")
    """
    first = location[:_DEEPEST]
    keys = (f"[{key}]" if isinstance(key, int) else f".{_bare(key)}" for key in first)
    return "".join(keys).removeprefix(".") + "..." * (len(location) > _DEEPEST)


def _bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_]{1,40}", key) else shown(key)
