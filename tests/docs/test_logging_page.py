"""docs/reference/logging.md lists what the source logs: each logger with its levels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import purgatory_broker
import purgatory_spark
import request_purgatory

PACKAGES = [
    Path(package.__path__[0]) for package in (request_purgatory, purgatory_broker, purgatory_spark)
]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "logging.md"

LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "warn": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "log": "ERROR",  # ErrorLog's
}


def logged_by(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (logger, level) for each call in a module that logs."""
    tree = ast.parse(path.read_text())
    assigned = [
        (ast.unparse(node.targets[0]), ast.unparse(node.value))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    ]
    (folder,) = (package.parent for package in PACKAGES if path.is_relative_to(package))
    logger = ".".join(path.relative_to(folder).with_suffix("").parts)
    logs = {"logger", "_log"}
    for target, value in assigned:
        if target == "logger" and value != "logging.getLogger(__name__)":
            logger = ast.literal_eval(value.removeprefix("logging.getLogger(").removesuffix(")"))
        # What a constructor is given is the log of whoever made it.
        if value in {"ErrorLog(logger)", "errors"}:
            logs.add(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            owner, _, method = ast.unparse(node.func).rpartition(".")
            if (owner in logs and method in LEVELS) or (owner, method) == ("", "warn"):
                yield logger, LEVELS[method]


def test_page_lists_every_logger_with_its_levels() -> None:
    """Neither more nor less: a new event needs a line, a removed one takes its line away."""
    listed = re.findall(
        r"^\| `((?:request_purgatory|purgatory_\w+)[\w.]*)` \| ([A-Z]+) \|", PAGE.read_text(), re.M
    )
    assert len(listed) == len(set(listed)), "a row is there twice"
    logged = {
        event
        for package in PACKAGES
        for path in package.rglob("*.py")
        # The loggers there are their callers'.
        if path.parent.name != "_native" and path.stem != "error_log"
        for event in logged_by(path)
    }
    assert len(logged) > 40, "the search finds the loggers"
    assert sorted(listed) == sorted(logged)
