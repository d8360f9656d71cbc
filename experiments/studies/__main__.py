"""`python -m experiments.studies NAME [OPTION...]` prints the table of a study; without a name, the
names of all studies. `NAME --help` lists the options of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import typer
from typer.main import get_command

from experiments import output
from topologies.errors import InputError


def studies() -> dict[str, str]:
    """The first line of each study's docstring, by its name. A study is a module of this package
    with a function `main` that returns its tables."""
    texts = {
        path.stem.replace("_", "-"): path.read_text(encoding="utf-8")
        for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))
    }
    return {
        name: text.removeprefix('"""').partition("\n")[0].removesuffix('"""')
        for name, text in texts.items()
        if "\ndef main(" in text
    }


def main(arguments: Sequence[str]) -> None:
    """Run the study that the arguments name. Raises InputError for a wrong name or option."""
    known = studies()
    if not arguments or arguments[0] in ("-h", "--help"):
        output.say(output.align([["study", "its table"], *map(list, known.items())]))
        return
    name, *options = arguments
    if name not in known:
        raise InputError(f"{name[:80]!r} is no study: {', '.join(known)}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(import_module(f"experiments.studies.{name.replace('-', '_')}").main)
    program = f"python -m experiments.studies {name}"
    try:
        printed = get_command(app)(options, prog_name=program, standalone_mode=False)
    except Exception as error:
        # The mistakes of an option are of a class that typer hides.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        raise InputError(" ".join(str(message()).split())) from None
    if isinstance(printed, str):
        output.say(printed)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.stderr.write(f"studies: {error}\n")
        sys.exit(2)
