"""A network of known rate and delay on one machine: network namespaces joined by a switch in user
space.

    with network(ranks=3, rate=2e8, delay=2e-3) as namespaces:
        enter(namespaces[0])

Needs root, iproute2, gcc and /dev/net/tun; `missing()` names those that are not there.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

SWITCH = Path(__file__).with_name("switch.c")
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""
GRAIN = 250e-6
"""Seconds that one write of the kernel occupies a link at most, so that flows take turns as on a
real one."""
SYSCTLS = {
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_no_metrics_save": "1",
}


def missing() -> str:
    """The tools that this machine lacks to run a lab, empty if none."""
    tools = [tool for tool in ("ip", "tc", "gcc") if not shutil.which(tool)]
    root = [] if os.geteuid() == 0 else ["root"]
    tun = [] if os.access("/dev/net/tun", os.R_OK | os.W_OK) else ["/dev/net/tun"]
    return ", ".join(root + tools + tun)


def address(rank: int) -> str:
    """The address of a rank."""
    return f"10.77.0.{rank + 1}"


@contextmanager
def network(ranks: int, rate: float, delay: float) -> Iterator[list[str]]:
    """Namespaces, one a rank, behind links of `rate` bit/s, full duplex; `delay` seconds one way
    between any two."""
    prefix = f"lab{os.getpid() % 100000}t"
    namespaces = [f"{prefix}{rank}" for rank in range(ranks)]
    with ExitStack() as stack:
        for namespace in namespaces:
            _run("ip", "netns", "add", namespace)
            stack.callback(_run, "ip", "netns", "del", namespace)
        stack.enter_context(_switch(prefix, ranks, rate, delay))
        for rank in range(ranks):
            _join(namespaces, rank, rate)
        yield namespaces


def enter(namespace: str) -> None:
    """Move this thread, and the processes and threads that it starts from now on, into a
    namespace."""
    with Path("/var/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


@contextmanager
def _switch(prefix: str, ports: int, rate: float, delay: float) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/switch"
        _run("gcc", "-O2", "-o", program, str(SWITCH))
        line = [program, prefix, str(ports), str(rate), str(round(delay * 1e9))]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise RuntimeError("the switch did not start")
                yield
            finally:
                process.kill()


def _join(namespaces: Sequence[str], rank: int, rate: float) -> None:
    """Put a port of the switch into its namespace, with an address, and with its neighbours known.

    A token bucket in front of it holds what exceeds the rate, where TCP sees it, as it sees the
    queue of a real card.
    """
    namespace, grain = namespaces[rank], max(6000, min(65536, int(rate / 8 * GRAIN)))
    _run("ip", "link", "set", namespace, "netns", namespace)
    inside = [
        "link set lo up",
        f"link set {namespace} name eth0 address {_card(rank)} txqueuelen 10000 gso_max_size "
        f"{grain}",
        "link set eth0 up",
        f"addr add {address(rank)}/24 dev eth0",
        *(
            f"neigh replace {address(k)} lladdr {_card(k)} dev eth0 nud permanent"
            for k in range(len(namespaces))
        ),
    ]
    _run("ip", "-n", namespace, "-batch", "-", stdin="\n".join(inside))
    bucket = ["rate", f"{rate:.0f}bit", "burst", str(grain + 3000), "limit", str(64 << 20)]
    _run("tc", "-n", namespace, "qdisc", "add", "dev", "eth0", "root", "tbf", *bucket)
    settings = " && ".join(
        f"echo {value} > /proc/sys/net/ipv4/{name}" for name, value in SYSCTLS.items()
    )
    _run("ip", "netns", "exec", namespace, "sh", "-c", settings)


def _card(rank: int) -> str:
    return f"02:00:00:00:00:{rank:02x}"


def _run(*line: str, stdin: str = "") -> None:
    done = subprocess.run(line, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)}: {done.stderr.strip()}")
