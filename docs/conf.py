"""Sphinx's settings."""

from importlib.metadata import version as installed_version

project = "request-purgatory"
author = "the request-purgatory contributors"
version = release = installed_version("request-purgatory")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "request-purgatory"
# Single backticks in docstrings are code, as in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
myst_heading_anchors = 3
