"""`simctl report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments import output
from experiments.pages.reports.comparison_story import page_of_results
from experiments.pages.reports.report_file import has_pictures, write_page
from experiments.pages.reports.stored_files import names_of, read_any


def run(files: Sequence[Path], out: Path) -> int:
    """Write one page of results, tables and logs, and print its summary."""
    output.check_writable(out, output.REPORTS)
    progress = output.Progress("files read")
    results = []
    for number, file in enumerate(files):
        progress(number, len(files))
        results.append(read_any(file))
    progress.clear()
    page = page_of_results(results, names_of(files), pictures=has_pictures(out))
    write_page(out, page)
    output.tell("\n".join([page.title, *(f"  {line}" for line in page.summary)]))
    return 0
