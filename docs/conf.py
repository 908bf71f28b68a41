"""How Sphinx builds the documentation: `make docs`, offline, warnings are errors."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode
from sphinx.writers.html5 import HTML5Translator

import fedbandits

project = "fedbandits"
author = "The fedbandits authors"
project_copyright = author
version = release = fedbandits.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
root_doc = "index"

# A name of ours that leads nowhere is an error; names of others have no page here, nor have those
# that only stand in signatures (py:class).
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!fedbandits\.).*"), (r"py:class", r".*")]

# Pages ------------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
# A full stop at the end of a cell says nothing, and three hyphens are three hyphens.
smartquotes = False
default_role = "py:obj"

# Docstrings -------------------------------------------------------------------------------------

autosummary_generate = False  # the pages are written by hand; tables link into them
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
autodoc_type_aliases = {
    name: name
    for name in ("BoolArray", "FloatArray", "IntArray", "Place", "Pull", "ScheduleLike", "Sources")
}
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 120
add_module_names = False
toc_object_entries_show_parents = "hide"
# Autodoc lists the members; numpydoc would list them again.
numpydoc_show_class_members = False

# Looks ------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"fedbandits {release}"
html_static_path = ["static"]
html_css_files = ["fedbandits.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
# These have no pages beside them.
html_sidebars = {"index": [], "install": [], "gallery": [], "*/*": ["sidebar-nav-bs"]}
html_context = {"default_mode": "auto"}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "fedbandits"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "show_prev_next": True,
}

# Formulas: LaTeX to MathML when the pages are built, so that no script is loaded to read them -----

_FUNCTION = re.compile(r"(<mi>(?:log|exp|max|min)</mi>)(?=<m(?:i|n|sub|frac))")


def _mathml(latex: str, *, display: str) -> str:
    """Return a formula as MathML, with a space between a function and its argument."""
    return _FUNCTION.sub(r'\1<mspace width="0.17em"/>', convert(latex, display=display))


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(
        f'<div class="formula">{_mathml(node.astext(), display="block")}</div>\n'
    )
    raise nodes.SkipNode


# Docstrings and names ---------------------------------------------------------------------------

_LETTER = re.compile(r"^( *)([A-Z]\.)$")


def _keep_letters(  # noqa: PLR0917 - the signature of Sphinx
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Keep a line that says just "T." from being read as the beginning of a list."""
    lines[:] = [_LETTER.sub(r"\1\\\2", line) for line in lines]


def _skip_public(  # noqa: PLR0917 - the signature of Sphinx
    app: Sphinx, what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Leave a public name out of the module it comes from: it is described as `fedbandits.NAME`."""
    if what == "module" and name in fedbandits.__all__:
        return getattr(fedbandits, name) is value or None
    return None


def _find_by_last_part(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Resolve `PhasedRule` from anywhere, when only one object of ours is called so."""
    domain = env.domains.python_domain
    if node.get("refdomain") != "py" or "." in node["reftarget"]:
        return None
    found = {
        entry.node_id: entry
        for name, entry in domain.objects.items()
        if name.rpartition(".")[2] == node["reftarget"] and not entry.aliased
    }
    if len(found) != 1:
        return None
    (entry,) = found.values()
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content)


def setup(app: Sphinx) -> None:
    """Register what is ours."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-skip-member", _skip_public)
    app.connect("autodoc-process-docstring", _keep_letters, priority=900)  # after numpydoc
    app.connect("missing-reference", _find_by_last_part)
