"""What all pictures share: their file, and a few parts."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

GREY = "0.55"


def to_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as a file: "png", "svg" or "pdf". The same figure gives the same bytes."""
    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with mpl.rc_context({"svg.hashsalt": "simctl"}):
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    return file.getvalue()


class SparseSeconds(EngFormatter):
    """Labels only the minor ticks at 2 and 5 of a logarithmic axis, in seconds."""

    def __init__(self) -> None:
        super().__init__("s")

    def __call__(self, value: float, position: int | None = None) -> str:
        """The label of a tick, or ""."""
        leading = round(value / 10 ** np.floor(np.log10(value))) if value > 0 else 0
        return super().__call__(value, position) if leading in (2, 5) else ""
