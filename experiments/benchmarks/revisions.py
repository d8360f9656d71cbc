"""Rows on an older revision and on these files, and another simulator's command beside ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.benchmarks.process_usage import (
    COMPILE,
    ROOT,
    SIMCTL,
    Usage,
    alternate,
    compiles,
    environment,
    unit,
    usage,
)
from experiments.benchmarks.speed import beside
from experiments.benchmarks.speed_rows import Row
from topologies.errors import InputError

WARM = (*SIMCTL, "sweep", "--p", "512")
"""A command that waits for compiled code."""
PEER_RANKS, PEER_SIZE = (64, 256, 1024), 2**26


@contextmanager
def worktree(revision: str, root: Path = ROOT) -> Iterator[Path]:
    """The files of a revision in a temporary folder."""
    git = ("git", "-C", str(root))
    name = f"{revision}^{{commit}}"
    if _git(*git, "rev-parse", "--verify", "--quiet", "--end-of-options", name).returncode:
        raise InputError(
            f"no revision {revision[:80]!r} in {root}: --against takes a branch, a tag or a commit"
        )
    with TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        done = _git(*git, "worktree", "add", "--detach", str(files), name)
        if done.returncode:
            raise InputError(f"git worktree fails: {done.stderr.strip().splitlines()[-1][:200]}")
        try:
            yield files
        finally:
            _git(*git, "worktree", "remove", "--force", str(files))


def _git(*line: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(line, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(f"git does not start: {error.strerror}") from None


def against(revision: str, rows: Sequence[Row], repeats: int, root: Path = ROOT) -> str:
    """The table of both, each with compiled code of its own."""
    with worktree(revision, root) as files, TemporaryDirectory() as caches:
        trees = {revision: (files, Path(caches) / "old"), "now": (root, Path(caches) / "new")}
        for folder, cache in trees.values():
            usage(COMPILE if compiles(folder) else WARM, environment(folder, cache))
        return beside(rows, trees, repeats)


def parse_peer(text: str) -> tuple[str, str]:
    """The name and the command of NAME=CMD."""
    name, _, command = text.partition("=")
    if not name.strip() or not command.strip():
        raise InputError(f"--peer is {text[:80]!r}: it is NAME=CMD, like sim='sim -n {{p}}'")
    if "{p}" not in command:
        raise InputError(f"the command of peer {name!r} lacks {{p}}, the number of ranks")
    return name.strip(), command


def peer_rows(
    peers: Mapping[str, str], repeats: int, ranks: Sequence[int] = PEER_RANKS
) -> list[list[str]]:
    """A line a command and number of ranks: ours, and each peer's with its ratio to ours."""
    lines = [["ring all-reduce of 64MiB", "ranks", "in y", "over simctl", "peak", "over simctl"]]
    for p in ranks:
        ours = (*SIMCTL, "sweep", "--algo", "ring", "--size", "64MiB", "--p", str(p))
        measures = {"simctl sweep": partial(usage, ours, environment())}
        for name, command in peers.items():
            shell = command.replace("{p}", str(p)).replace("{size}", str(PEER_SIZE))
            measures[name] = partial(usage, ("/bin/sh", "-c", shell))
        y, done = unit(), alternate(measures, repeats)
        used = {name: _succeeded(name, p, result) for name, result in done.items()}
        base = used["simctl sweep"]
        lines += [[name, str(p), *_cells(result, base, y)] for name, result in used.items()]
    return lines


def _succeeded(name: str, ranks: int, result: Usage | str) -> Usage:
    if isinstance(result, str):
        raise InputError(f"the command of {name!r} fails at {ranks} ranks: {result}")
    return result


def _cells(used: Usage, base: Usage, y: float) -> list[str]:
    times = [f"{used.cpu / y:.2f}", f"{used.cpu / base.cpu:.2f}"]
    return [*times, f"{used.peak / 1e6:.0f}MB", f"{used.peak / base.peak:.2f}"]
