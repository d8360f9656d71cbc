"""Changes of good files that make them wrong, a change a line."""

import tomllib
from pathlib import Path

TABLES = Path(__file__).parents[1] / "mistakes" / "files.toml"


def changes_of(reader: str) -> list[tuple[str, str, str]]:
    """What is replaced in a good file, by what, and what the reader says of it."""
    return [(old, new, says) for old, new, says in tomllib.loads(TABLES.read_text())[reader]]
