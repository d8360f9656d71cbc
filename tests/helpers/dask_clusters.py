"""A Dask cluster of two workers on this machine, in processes of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

SCRIPT = """
import json, sys
from distributed import LocalCluster
settings = json.loads(sys.argv[1])
with LocalCluster(
    n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, **settings
) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


class Cluster(NamedTuple):
    """A running cluster."""

    address: str
    """The address of its scheduler."""
    process: "subprocess.Popen[str]"
    """The process of its scheduler, whose end is that of the workers."""


@contextmanager
def two_workers(**settings: object) -> Iterator[Cluster]:
    """A cluster, with further settings of a `distributed.LocalCluster`. It is there until the
    pipe to its process is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield Cluster(process.stdout.readline().strip(), process)
        finally:
            process.communicate()
