"""The options of what a trace has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from experiments.options.rank_list import parse_rank_list
from experiments.trace_choice import TraceChoice

Ranks = Annotated[
    str | None,
    typer.Option(
        "--ranks",
        help="With a trace as --timeline: only these ranks, like 0-7,9 or 0,8.  [default: all]",
        hidden=True,
    ),
]
NoTransfers = Annotated[
    bool,
    typer.Option(
        "--no-transfers", help="With --timeline FILE.json: without transfers.", hidden=True
    ),
]


@dataclass(frozen=True)
class TraceOptions:
    """What a trace has, as the user writes it."""

    ranks: Ranks = None
    no_transfers: NoTransfers = False

    @property
    def choice(self) -> TraceChoice:
        """The values of the options. Raises InputError."""
        if self.ranks is None:
            return TraceChoice(None, not self.no_transfers)
        ranks = tuple(sorted({*parse_rank_list("--ranks", self.ranks)}))
        return TraceChoice(ranks, not self.no_transfers, self.ranks)
