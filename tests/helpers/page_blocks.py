"""Blocks of code on pages, and the notes above them that say what they are.

| note, an HTML comment | meaning |
|---|---|
| not run: REASON | no test can run the block |
| file: NAME | the block is a file, which later commands of the page read |
| needs: EXTRA | the block needs an extra of simctl |
"""

import re
import shlex
from dataclasses import dataclass

BLOCK = re.compile(
    r"(?:^<!-- (?P<kind>not run|file|needs): (?P<note>[^\n]+) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SHELL = ("sh", "bash", "console")
PROGRAMS = ("simctl", "python", "pip", "export")
"""First words of commands that a test runs."""
READ = ("python", "toml")
"""Languages whose blocks a test runs or reads."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    language: str
    text: str
    kind: str
    """The kind of the note above it, or nothing."""
    note: str
    line: int

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block."""
        return [shlex.split(command, comments=True) for command in commands(self.text)]


def blocks(text: str) -> list[Block]:
    """All blocks of a page, in order.

    >>> blocks("<!-- not run: needs a GPU -->\\n```sh\\na b\\n```\\n")[0].note
    'needs a GPU'
    """
    return [
        Block(
            match["language"],
            match["text"],
            match["kind"] or "",
            match["note"] or "",
            text.count("\n", 0, match.start("language")) + 1,
        )
        for match in BLOCK.finditer(text)
    ]


def commands(text: str) -> list[str]:
    """The commands of a shell block: no prompts, and one string for lines of one command.

    >>> commands('$ a \\\\\\n  b\\nc "1\\n2"\\n')
    ['a    b', 'c "1\\n2"']
    """
    found: list[str] = []
    command = ""
    for line in text.replace("\\\n", " ").splitlines():
        command += line.removeprefix("$ ") if not command else f"\n{line}"
        try:
            shlex.split(command, comments=True)
        except ValueError:
            continue
        if command.strip():
            found.append(command)
        command = ""
    return found


def neighbours(page: str) -> list[tuple[str, Block, str]]:
    """Each block between the languages of its neighbours."""
    listed = blocks(page)
    languages = ["", *(block.language for block in listed), ""]
    return list(zip(languages[:-2], listed, languages[2:], strict=True))


def uncompared(page: str) -> list[Block]:
    """The blocks that a shell runs or reads, where the page does not show what is printed."""
    return [
        block
        for _, block, after in neighbours(page)
        if block.kind == "file" or (block.language in SHELL and not compared(block, after))
    ]


def compared(block: Block, after: str) -> bool:
    """Whether the page shows the output of a command."""
    return block.language == "console" and after == "text"


def untested(page: str) -> list[str]:
    """The blocks that no test runs, compares or reads, and that have no note."""
    return [
        f"line {block.line}: {block.language}: {block.text.splitlines()[0]}"
        for before, block, after in neighbours(page)
        if block.kind in ("", "needs")
        and not (
            block.language in READ
            or compared(block, after)
            or (block.language == "text" and before in ("console", "python"))
            or (block.language in SHELL and all(c[0] in PROGRAMS for c in block.commands))
        )
    ]
