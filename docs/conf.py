"""Sphinx's settings."""

from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

project = "request-purgatory"
author = "the request-purgatory contributors"
version = release = installed_version("request-purgatory")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["code.css"]
html_title = "request-purgatory"
html_show_copyright = False
# Single backticks in docstrings are code, as in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
# The description of a class, and the arguments of its constructor.
autoclass_content = "both"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# A page for each class, from docs/_templates/autosummary.
autosummary_generate = True
autosummary_imported_members = True
myst_heading_anchors = 3

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


def skip_internal_member(
    _app: Sphinx, _what: str, name: str, _obj: object, skip: bool, _options: object
) -> bool | None:
    """Leave members out of the reference that are no interface.

    Returns:
        True for those, and None where Sphinx decides.
    """
    return True if name in INTERNAL_MEMBERS else skip or None


def link_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.reference | None:
    """Link a type in a signature to its page, which has the name that users import.

    Returns:
        The link; None if the name is no public one.
    """
    target = str(node.get("reftarget", ""))
    if not target.startswith(("request_purgatory.", "purgatory_broker.", "purgatory_spark.")):
        return None
    name = target.rpartition(".")[2]
    objects: dict[str, Any] = env.domaindata["py"]["objects"]
    for module in PUBLIC_MODULES:
        found = objects.get(f"{module}.{name}")
        if found is not None:
            return make_refnode(
                app.builder, node["refdoc"], found.docname, found.node_id, contnode, target
            )
    return None


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("autodoc-skip-member", skip_internal_member)
    app.connect("missing-reference", link_public_name)
