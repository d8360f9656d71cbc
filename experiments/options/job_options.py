"""The options of where a training job runs, and of what is written of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.options.execution_options import ExecutionOptions
from experiments.options.options import ReportOptions, RunTimeline, option
from experiments.options.profile_options import SimulationOptions
from experiments.options.trace_options import TraceOptions


@dataclass(frozen=True, kw_only=True)
class JobOptions(SimulationOptions, TraceOptions, ReportOptions, ExecutionOptions):
    """Where a training job runs, and what is written of it."""

    timeline: RunTimeline = None
    out: Path | None = option(
        "Write the table as FILE.csv or .parquet, and a second file that says how it was "
        "made. FILE.json stores the result for simctl report.",
        writable=True,
    )
