"""Files of NCCL's tuner, read back."""

from pathlib import Path

from experiments.simulations.winners import Line


def read_tuner(path: Path) -> list[Line]:
    rows = [row.split(",") for row in path.read_text().splitlines() if not row.startswith("#")]
    return [
        Line(row[0], int(row[1]), int(row[2]), row[3], row[4], *map(int, row[5:])) for row in rows
    ]
