"""What stands in a picture."""

from matplotlib.figure import Figure


def legend(figure: Figure) -> list[str]:
    """The entries of the legend beside the axes."""
    (beside,) = figure.legends
    return [text.get_text() for text in beside.get_texts()]
