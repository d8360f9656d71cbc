"""Plain values as JSON and back: no key twice, no NaN, no nesting without end."""

from __future__ import annotations

import json

from topologies.errors import InputError, shown

_LONGEST_NUMBER = 20


def load(text: str, name: str) -> object:
    """What a JSON document says. Raises InputError."""
    try:
        return json.loads(
            text, object_pairs_hook=_mapping, parse_int=_whole, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise InputError(f"{name} line {error.lineno}: {error.msg}: expected JSON") from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deep") from None


def dump(content: dict[str, object]) -> str:
    """A mapping as JSON; every device, medium and link is a line."""
    return (
        "{\n"
        + ",\n".join(f" {_text(key)}: {_block(value)}" for key, value in content.items())
        + "\n}\n"
    )


def _block(value: object) -> str:
    rows = value if isinstance(value, list) and isinstance(value[0], dict) else None
    return "[\n  " + ",\n  ".join(map(_text, rows)) + "\n ]" if rows else _text(value)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise InputError(f"the key {shown(key)} is there twice")
        values[key] = value
    return values


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise InputError(
            f"{digits[:_LONGEST_NUMBER]}... is larger than any number that is used here"
        )
    return int(digits)


def _constant(word: str) -> object:
    raise InputError(
        f'{word} is no number that JSON knows: write quantities as text, like "50GB/s"'
    )
