"""The settings of the site: `sphinx-build -W -b html docs FOLDER` builds it.

Sphinx reads a copy of the repository's pages, in the same folders. So every link holds both here
and on the site.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "site")]

import docstrings  # noqa: E402
import formulas  # noqa: E402
import page_copies  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "simctl"
author = "the authors of simctl"
html_title = "simctl"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options: dict[str, object] = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "native"
default_role = "code"
smartquotes = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 6
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"no-value": True}


def setup(app: "Sphinx") -> None:
    pages = Path(app.doctreedir) / "pages"
    page_copies.copy(ROOT, pages)
    docstrings.write(ROOT, pages)
    app.srcdir = type(app.srcdir)(pages)
    app.connect("autodoc-process-docstring", docstrings.as_rst)
    app.connect("autodoc-process-signature", docstrings.short_types)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(formulas.inline, None), block_renderers=(formulas.block, None)
    )
