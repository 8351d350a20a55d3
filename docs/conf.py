"""Sphinx's settings."""

import builtins
import sys
from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.intersphinx import InventoryAdapter
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

project = "request-purgatory"
author = "the request-purgatory contributors"
version = release = installed_version("request-purgatory")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_codeautolink",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_title = f"request-purgatory {version}"
html_show_copyright = False
# Single backticks in docstrings are code, as in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
# The description of a class, and the arguments of its constructor.
autoclass_content = "both"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# A default as the code has it: `...` and not Ellipsis.
autodoc_preserve_defaults = True
# A longer signature has a line for each parameter.
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
# A page for each class, from docs/_templates/autosummary.
autosummary_generate = True
autosummary_imported_members = True
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "substitution"]
myst_substitutions = {"version": version}
# The names of Python's that the reference links to: the build asks no server.
intersphinx_mapping = {"python": ("https://docs.python.org/3", "python.inv")}
# Prompts and what is printed are not copied.
copybutton_exclude = ".linenos, .gp, .go"
suppress_warnings = ["codeautolink.match_block"]  # doctest's flags, which the page leaves out
# The blocks of a page follow one another, as a reader pastes them.
codeautolink_concat_default = True

#: The modules that users import from. The reference has every name under one of them.
PUBLIC_MODULES = (
    "request_purgatory",
    "request_purgatory.aio",
    "request_purgatory.testing",
    "request_purgatory.snapshot",
    "request_purgatory.metrics.prometheus",
    "purgatory_broker",
    "purgatory_spark",
    "purgatory_spark.stream",
)

OUR_PACKAGES = ("request_purgatory", "purgatory_broker", "purgatory_spark")

#: Members that belong to the library's own machinery, or to the compiled build.
INTERNAL_MEMBERS = {
    "abandon_in_child",
    "add_from",
    "all_buckets",
    "check",
    "constant_quantifier",
    "create_offsets_topic",
    "finish",
    "input_columns",
    "is_handled",
    "key_columns",
    "list_columns",
    "matches",
    "peek_expiration_ms",
    "pending_tasks",
    "remove_from_timer",
    "require_events",
    "require_init",
    "set_now_ns",
    "timer_list",
}

logger = logging.getLogger(__name__)


def skip_internal_member(
    _app: Sphinx, _what: str, name: str, _obj: object, skip: bool, _options: object
) -> bool | None:
    """Leave members out of the reference that are no interface.

    Returns:
        True for those, and None where Sphinx decides.
    """
    return True if name in INTERNAL_MEMBERS else skip or None


def link_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.reference | None:
    """Link a type in a signature: ours to its page, under the name that users import; Python's.

    Annotations that only a type checker can evaluate have names without their module.

    Returns:
        The link; None if the name is neither.
    """
    target = str(node.get("reftarget", "")).partition("[")[0]
    module, _, name = target.rpartition(".")
    if not module or module.startswith(OUR_PACKAGES):
        objects: dict[str, Any] = env.domaindata["py"]["objects"]
        for public in PUBLIC_MODULES:
            found = objects.get(f"{public}.{name}")
            if found is not None:
                return make_refnode(
                    app.builder, node["refdoc"], found.docname, found.node_id, contnode, target
                )
    pythons = InventoryAdapter(env).main_inventory["py:class"]
    # Where Python has it: `asyncio` for `_asyncio` and `asyncio.events`.
    package = module.partition(".")[0].lstrip("_")
    for full, item in pythons.items():
        if full == target or (full.startswith(package) and full.endswith(f".{name}")):
            link = nodes.reference("", "", internal=False, refuri=item.uri)
            link += contnode
            return link
    if target in dir(builtins) or package in sys.stdlib_module_names:
        logger.warning("docs/python.inv lacks %s", target, location=node)
    return None


def refuse_garbled_property(
    _app: Sphinx, what: str, name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Warn of a property whose first line has a colon, before which napoleon reads a type."""
    if what in ("property", "attribute") and any(line.startswith(":type:") for line in lines):
        logger.warning("the docstring of %s has a colon in its first line", name)


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("autodoc-skip-member", skip_internal_member)
    app.connect("missing-reference", link_name)
    # After napoleon.
    app.connect("autodoc-process-docstring", refuse_garbled_property, priority=900)
