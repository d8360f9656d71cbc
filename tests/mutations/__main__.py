"""`python -m tests.mutations --seed S --count 200`: are the tests of the core sharp enough to
notice a wrong line?

Each mutant is one changed line of a file of `simulator` or of `topologies` (readers and
`simulator`'s data apart), in a copy of the tree. It is killed by a failing test or by a run that
takes far too long. The nearest tests run first (the file's doctests, the mirrored test files, those
that import the file), then `tests/laws`. Kernels run as plain Python: a kernel compiled before
would hide its mutant. Mutants in `equivalent.toml` change nothing, and do not count.

Prints every survivor, and exits with 1 where fewer than 90% are killed. `--file` takes all mutants
of a file instead. Stderr says now and then how many mutants have been tried, so that an interrupted
run has a result too.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.mutations.mutants import Mutant, core_files, draw, mutants
from tests.mutations.nearest import LAWS, nearest

ROOT = Path(__file__).parents[2]
WANTED = 0.9
SLOW = 2.0
"""Seconds above which a test is left out, uncompiled as it is."""
NEAR = 40.0
"""Seconds of tests that a mutant meets before the laws."""
EVERY = 10
"""Mutants between two lines of progress."""
MODULES = (
    *("numpy", "scipy.sparse.csgraph", "scipy.optimize", "networkx", "simpy", "numba", "yaml"),
    *("pydantic", "defusedxml.ElementTree", "platformdirs"),
    *("hypothesis.strategies", "hypothesis.extra.numpy"),
)
"""Imported once, before the forks."""


def equivalents() -> dict[tuple[str, str, str], str]:
    """The mutants that change nothing, and why."""
    listed = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text())["mutant"]
    return {(entry["path"], entry["before"], entry["after"]): entry["reason"] for entry in listed}


def main() -> int:
    """Draw mutants, run them, print the survivors."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--times", type=Path, help="a file to keep how long tests take; delete it when tests change"
    )
    parser.add_argument(
        "--file",
        action="append",
        help="all mutants of a file, like simulator/analysis/bounds.py",
    )
    options = parser.parse_args()
    known = equivalents()
    mutations = [
        m
        for file in options.file or core_files(ROOT)
        for m in mutants(file, (ROOT / file).read_text())
    ]
    counted = [mutant for mutant in mutations if mutant.change not in known]
    drawn = counted if options.file else draw(counted, options.count, options.seed)
    begin = time.monotonic()
    survivors = run(drawn, options.workers, options.times)
    killed = len(drawn) - len(survivors)
    sys.stdout.write(
        f"{killed} of {len(drawn)} mutants killed ({killed / len(drawn):.1%}), {len(survivors)} "
        f"survive, "
        f"seed {options.seed}, {time.monotonic() - begin:.0f} s\n"
    )
    return 0 if killed >= WANTED * len(drawn) else 1


def run(drawn: list[Mutant], workers: int, kept: Path | None) -> list[Mutant]:
    """The mutants that no test notices. How long tests take is read from `kept`, or kept there."""
    from tests.mutations.runs import Task, Times, run_all, test

    order = {path: nearest(ROOT, path) for path in {mutant.path for mutant in drawn}}
    times: dict[str, Times] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    tried, survivors = 0, list[Mutant]()

    def timing(file: str) -> Task:
        """Which tests of a file pass on the unchanged tree, and in what time."""

        def ended(status: int, notes: list[str]) -> None:
            passed = [json.loads(note) for note in notes]
            times[file] = {
                name: seconds for name, failed, seconds in passed if not failed and seconds < SLOW
            }

        return Task(lambda copy: test(copy, file, None), ended)

    def near(path: str) -> Iterator[str]:
        """The files that a mutant meets: the nearest up to `NEAR` seconds of them, then the
        laws."""
        spent = 0.0
        for file in order[path]:
            spent += sum(times[file].values())
            if times[file] and (spent <= NEAR or file.startswith(LAWS)):
                yield file

    def trial(mutant: Mutant) -> Task:
        def ended(status: int, notes: list[str]) -> None:
            nonlocal tried
            tried += 1
            if status == 0:
                survivors.append(mutant)
                sys.stdout.write(f"{mutant}\n")
                sys.stdout.flush()
            if tried % EVERY == 0 or tried == len(drawn):
                sys.stderr.write(f"{tried} of {len(drawn)} tried, {len(survivors)} survive\n")

        files = list(near(mutant.path))
        if not files:
            sys.exit(f"{mutant.path}: no test of it passes on the unchanged tree")

        def work(copy: Path) -> int:
            return int(any(test(copy, file, times[file]) for file in files))

        return Task(work, ended, (mutant.path, mutant.text))

    with tempfile.TemporaryDirectory() as folder:
        files = dict.fromkeys(
            file for path in sorted(order) for file in order[path] if file not in times
        )
        sys.stderr.write(f"{len(files)} test files to time, {len(drawn)} mutants to try\n")
        run_all(map(timing, files), ROOT, Path(folder), workers)
        if kept:
            kept.write_text(json.dumps(times))
        run_all(map(trial, drawn), ROOT, Path(folder), workers)
    return survivors


if __name__ == "__main__":
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for module in MODULES:
        import_module(module)
    sys.exit(main())
