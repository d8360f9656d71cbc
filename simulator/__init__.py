"""Schedules, engines, timelines and cost models. No module here knows of files, terminals or
plots."""

import sys


def show_in_notebooks(shell: object) -> None:
    """Let an IPython shell show timelines as HTML, with their critical path."""
    display = getattr(shell, "display_formatter", None)
    if display is not None:
        display.formatters["text/html"].for_type_by_name(
            "simulator.schedules.timeline", "Timeline", _timeline_html
        )


def _timeline_html(timeline: object) -> str:
    # Critical paths are above timelines, so a timeline cannot show its own. Here, above both, the
    # import waits until a notebook shows a timeline.
    from simulator.analysis.timeline_html import timeline_html

    return timeline_html(timeline)  # type: ignore[arg-type]


if "IPython" in sys.modules:
    show_in_notebooks(sys.modules["IPython"].get_ipython())
