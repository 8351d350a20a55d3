"""docs/reference/logging.md lists what the source logs: each logger with its levels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(ROOT.glob("packages/*/src"))
PAGE = ROOT / "docs" / "reference" / "logging.md"

LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "warn": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "log": "ERROR",  # ErrorLog's
}


def logged_by(path: Path, source: Path) -> Iterator[tuple[str, str]]:
    """Yield (logger, level) for each call in a module that logs."""
    tree = ast.parse(path.read_text())
    assigned = [
        (ast.unparse(node.targets[0]), ast.unparse(node.value))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    ]
    logger = ".".join(path.relative_to(source).with_suffix("").parts)
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
    listed = re.findall(r"^\| `(\w*purgatory\w*\.[\w.]+)` \| ([A-Z]+) \|", PAGE.read_text(), re.M)
    assert len(listed) == len(set(listed)), "a row is there twice"
    logged = {
        event
        for source in SOURCES
        for path in source.rglob("*.py")
        # The loggers there are their callers'.
        if path.parent.name != "_native" and path.stem != "error_log"
        for event in logged_by(path, source)
    }
    assert len(logged) > 40, "the search finds the loggers"
    assert sorted(listed) == sorted(logged)
