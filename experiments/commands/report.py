"""`simctl report`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import ClassVar

from experiments import output
from experiments.options.options import argument, option


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """Make one page of stored results, tables and logs.

    Two files of one kind are shown as before and after, others below each other.
    """

    EXAMPLES: ClassVar = ("report before.json after.json --out report.html",)

    files: list[Path] = argument(
        "FILE",
        "Results of --out FILE.json, tables of --out FILE.csv or .parquet, and logs.",
        default=MISSING,
    )
    out: Path = option(
        "The report: FILE.html for a browser, FILE.md for a ticket.",
        default=Path("report.html"),
        writable=True,
    )

    def run(self) -> int:
        """Write one page of results, tables and logs, and print its summary."""
        from experiments.pages.reports.comparison_story import page_of_results
        from experiments.pages.reports.report_file import write_page
        from experiments.pages.reports.stored_files import names_of, read_any, read_from

        output.check_writable(self.out, output.REPORTS)
        progress = output.Progress("files read")
        results, pictures = [], self.out.suffix.lower() != ".md"
        with read_from(*self.files):
            for number, file in enumerate(self.files):
                progress(number, len(self.files))
                results.append(read_any(file))
            page = page_of_results(results, names_of(self.files), pictures=pictures)
        progress.clear()
        write_page(self.out, page)
        output.tell("\n".join([page.title, *(f"  {line}" for line in page.summary)]))
        return 0
