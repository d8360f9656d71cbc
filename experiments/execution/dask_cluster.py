"""Points on the workers of a Dask cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.execution.executor import Run, T, chunks
from topologies.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 10
"""Seconds in which a scheduler must answer."""
PACKAGE = "simctl-collectives"
_ADDRESS = re.compile(r"(?:(?:tcp|tls|wss?)://)?(?:\[[\da-fA-F:]+\]|[^/\s:\[\]]+):\d{1,5}")


class DaskCluster:
    """The workers of a scheduler, named by its address or by its scheduler file.

    A chunk whose worker is lost runs on another one. Raises InputError if no scheduler answers, and
    if the scheduler or a worker has no simctl or another version.
    """

    def __init__(self, place: str) -> None:
        address = _address(place)
        try:
            from distributed import Client
        except ImportError:
            raise InputError(
                f"--jobs {place[:80]} needs dask, which is not installed: pip install '.[dask]'"
            ) from None
        try:
            self._client: Client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, TypeError, ValueError) as error:
            raise InputError(f"--jobs {place}: no scheduler answers there ({error})") from None
        self.address = address
        try:
            self._check_versions()
        except BaseException:
            self.close()
            raise

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        """As :meth:`experiments.execution.executor.Executor.map` says."""
        from distributed import CancelledError, KilledWorker, as_completed
        from distributed.comm import CommClosedError

        threads = sum(self._client.nthreads().values())
        if not threads and costs:
            output.note(f"{self.address} has no worker yet: waiting for one")
        # Where no worker has come yet, 16 are expected.
        parts = chunks(costs, threads or 16)
        work = partial(_run, run, version(PACKAGE))
        futures = self._client.map(work, parts, pure=False)
        part_of = dict(zip(futures, parts, strict=True))
        for future in as_completed(futures, loop=self._client.loop):
            try:
                answer = future.result()
            except KilledWorker as error:
                raise InputError(
                    f"{self.address}: {error.allowed_failures + 1} workers died at the same "
                    f"points: they may need more memory"
                ) from None
            except ModuleNotFoundError as error:
                raise _refusal(
                    f"a worker of {self.address}", f"no module {error.name}", version(PACKAGE)
                ) from None
            except (CancelledError, CommClosedError):
                raise InputError(
                    f"the scheduler at {self.address} is gone: start it, and go on with --resume"
                ) from None
            yield from zip(part_of.pop(future), answer, strict=True)

    def close(self) -> None:
        """Leave the cluster, which forgets what is still running."""
        self._client.close()

    def _check_versions(self) -> None:
        """By a function that is there without simctl too."""
        try:
            answer = self._client.run_on_scheduler(version, PACKAGE)
        except PackageNotFoundError as error:
            answer = error
        _check_version(f"the scheduler {self.address}", answer, version(PACKAGE))
        answers = self._client.run(version, PACKAGE, on_error="return")
        for worker, answer in answers.items():
            _check_version(f"worker {worker}", answer, version(PACKAGE))


def _run(run: Run[T], expected: str, chunk: Sequence[int]) -> list[T]:
    """Run a chunk on a worker, which may have come after all were checked."""
    _check_version("a worker", version(PACKAGE), expected)
    return list(run(chunk))


def _check_version(where: str, answer: object, expected: str) -> None:
    if isinstance(answer, PackageNotFoundError):
        raise _refusal(where, "no simctl", expected)
    if answer != expected:
        raise _refusal(where, f"simctl {answer}", expected)


def _refusal(where: str, what: str, expected: str) -> InputError:
    return InputError(f"{where} has {what}: install simctl {expected} there")


def _address(place: str) -> str:
    """The address of a scheduler, itself or in a scheduler file."""
    if _ADDRESS.fullmatch(place):
        return place
    try:
        address = json.loads(Path(place).read_bytes())["address"]
    except (OSError, ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise InputError(
            f"--jobs {place[:80]!r} is no number of processes, no address like tcp://host:8786, "
            f"and no scheduler file"
        )
    return address
