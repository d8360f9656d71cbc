"""Pictures are files of any text."""

import warnings

from matplotlib.figure import Figure

from experiments.pictures.figure_file import to_bytes


def test_what_no_font_has_is_a_question_mark() -> None:
    figure = Figure()
    title = figure.suptitle("a\x1b[2J\nb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to_bytes(figure, "png").startswith(b"\x89PNG")
    assert title.get_text() == "a?[2J\nb"
