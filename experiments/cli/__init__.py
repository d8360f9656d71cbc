"""`simctl`: one front door. A command's work is imported when it runs, so that `--help` is
quick."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from experiments import remarks
from experiments.cli.command_classes import COMMANDS, STYLE, Commands, show_help
from experiments.options.completion import join_words
from topologies.errors import InputError

FIRST_WORDS = """\
simctl says how long a collective or a training step takes on a cluster, and why.

Try first:
  simctl sweep --algo ring --p 2..64                   how an algorithm scales
  simctl recommend --topology hgx_h100:nodes=4         which algorithm is fastest at each size
  simctl run --algo rings --topology hgx_h100:nodes=4  where the time of a collective goes
  simctl train --model resnet50 --p 8                  where a training step stalls
  simctl diagnose YOUR_LOG                             whether an nccl-tests log is normal
  simctl list machines                                 which machines there are

All commands: simctl --help. Options of a command: simctl COMMAND --help."""
app = typer.Typer(
    name="simctl",
    cls=Commands,
    help="Simulate the communication of distributed training: how long, why, how far from the "
    "best, is it normal?",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=STYLE,
)
for name in ("algos", "topo"):
    app.add_typer(
        typer.Typer(rich_markup_mode=None, context_settings=STYLE),
        name=name,
        cls=Commands,
        help=COMMANDS[name][1],
        invoke_without_command=True,
        callback=show_help,
    )


def _version(shown: bool) -> None:
    if shown:
        from importlib.metadata import version

        typer.echo(f"simctl {version('simctl-collectives')}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(FIRST_WORDS)


@cache
def _command() -> Any:
    """All commands with their options, built once in a process: building takes longer than a short
    command."""
    return get_command(app)


def main() -> None:
    """Run the command line: one line for a user's mistake, exit codes 0, 1, 2 and 130."""
    # Matrices are small here: threads of numpy that wait for work cost a third of a short command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "COMP_WORDS" in os.environ:
        join_words(os.environ)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    logging.basicConfig(format="note: %(message)s", level=logging.ERROR, stream=sys.stderr)
    logging.getLogger("simctl").setLevel(logging.INFO)
    try:
        with remarks.held():
            code = _command()(prog_name="simctl", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except InputError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        _fail(
            "this does not fit into memory: take fewer ranks, or an algorithm with fewer transfers"
        )
    except SystemError as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__
        if cause is None:
            raise
        sys.exit(130)  # so does Numba wrap a Ctrl-C while compiled code runs
    except OSError as error:
        what = f"open {str(error.filename)!r}" if error.filename else "write the output"
        _drop_output()
        _fail(f"cannot {what}: {error.strerror}")
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = " ".join(str(message()).replace("Value error, ", "").split())
        if text.startswith("No such option: --nodes"):
            text = "No such option: --nodes: write it in --topology, like hgx_h100:nodes=4"
        command = getattr(getattr(error, "ctx", None), "info_name", None)
        if command == "train" and text.startswith("Got unexpected extra argument"):
            text = f"{text}: write the model as --model llama3_8b"
        if command == "train" and text.startswith("No such option: --plan"):
            text = "No such option: --plan: it is a command: simctl plan dp=8 --model llama3_8b"
        _fail(text or f"see simctl --help ({type(error).__name__})")
    sys.exit(code)


def _drop_output() -> None:
    """What is left to write goes nowhere: else the end of the process fails to write it again."""
    standard = sys.__stdout__
    if standard and sys.stdout is standard:
        os.dup2(os.open(os.devnull, os.O_WRONLY), standard.fileno())


def _fail(message: str) -> None:
    from experiments.text_lines import visible

    line = " ".join(message.splitlines())
    print(visible(f"simctl: {line}"), file=sys.stderr)  # noqa: T201
    sys.exit(2)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    from experiments import output

    output.note(str(message))
