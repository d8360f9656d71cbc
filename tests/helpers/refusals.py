"""What is said to a user of a mistake, and changes of good files that make them wrong."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from topologies.errors import InputError

Parse = Callable[[str], object]


def message_of(call: Callable[..., object], *arguments: object, **options: object) -> str:
    """What the InputError says that the call raises, on however many lines."""
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    return str(error.value)


def refusal(call: Callable[..., object], *arguments: object, **options: object) -> str:
    """The one line of the InputError that the call raises."""
    message = message_of(call, *arguments, **options)
    assert len(message.splitlines()) == 1
    return message


def attempt(parse: Parse, text: str) -> tuple[object, str]:
    """The value, or the message of the refusal."""
    try:
        return parse(text), ""
    except InputError as refused:
        return None, str(refused)


TABLES = Path(__file__).parents[1] / "mistakes" / "files.toml"


def changes_of(reader: str) -> list[tuple[str, str, str]]:
    """What is replaced in a good file, by what, and what the reader says of it."""
    return [(old, new, says) for old, new, says in tomllib.loads(TABLES.read_text())[reader]]
