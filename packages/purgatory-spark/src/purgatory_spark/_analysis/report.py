"""The report: one self-contained HTML file about analyses and benchmark results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from purgatory_spark._analysis.analysis_folder import Analysis


def write_report(
    analyses: list[Analysis],
    target: Path,
    title: str = "Request purgatory report",
    benchmarks: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write a report.

    Args:
        analyses: One section each.
        target: The HTML file to write. Folders are named in it relative to this file's.
        title: The page's title.
        benchmarks: Ready sections, such as those of `python -m benchmarks.report`.

    Returns:
        `target`.
    """
    # It imports jinja2, which Spark's Python workers would import with the package.
    from purgatory_spark._analysis.report_page import report_page

    page = report_page(analyses, target.parent, title, benchmarks)
    target.write_text(page, encoding="utf-8")
    return target
