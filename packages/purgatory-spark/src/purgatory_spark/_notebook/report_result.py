"""A report that was written, as Jupyter shows it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.findings import Findings, find
from purgatory_spark._analysis.small_tables import SmallTables
from purgatory_spark._analysis.units import format_ms, format_share
from purgatory_spark._notebook.html import html_table
from purgatory_spark._output_folder import OutputExistsError
from request_purgatory.errors import InvalidArgumentError

#: The names of the page, and of the analysis folder beside it.
PAGE = "report.html"
ANALYSIS = "analysis"


def require_replaceable(target: Path, trace: Path | None) -> None:
    """Check that a report can be made in a folder without a loss."""
    is_report = (target / PAGE).is_file() and (target / ANALYSIS).is_dir()
    is_empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not is_report and not is_empty:
        raise OutputExistsError(
            f"{target} exists already, and is not an earlier report: choose another folder"
        )
    if trace is not None and trace.resolve().is_relative_to(target.resolve()):
        raise InvalidArgumentError("folder", f"another than that of the trace {trace}", str(target))


@dataclass(frozen=True)
class Report:
    """A report, which is one HTML file, and the tables that it was made of.

    Jupyter shows a link to the file and its main figures, without a Spark job.

    Attributes:
        page: The HTML file.
        analysis: The analysis folder beside it.
    """

    page: Path
    analysis: Analysis

    @cached_property
    def _tables(self) -> SmallTables:
        return SmallTables(self.analysis)

    @cached_property
    def findings(self) -> Findings:
        """Which timeout to choose, what changed at marks, and which hosts and types expired."""
        return find(self._tables)

    def _repr_html_(self) -> str:
        overall = self._tables.overall
        rows = [
            ("requests", f"{overall['requests']:,}"),
            ("expired", f"{format_share(overall['expired_share'])} ({overall['expired']:,})"),
            ("median wait", format_ms(overall["p50_ms"])),
            ("p99 wait", format_ms(overall["p99_ms"])),
        ]
        rows += [
            (f"{row['design']} replay", f"{row['differing']:,} of {row['rows']:,} rows differ")
            for row in self._tables.agreement
        ]
        # Jupyter resolves a relative link from the notebook's folder, where its kernel runs.
        path = os.path.relpath(self.page)
        name = self.analysis.manifest["trace"]["name"]
        link = Markup('<a href="{}" target="_blank">{}</a>').format(quote(path), path)
        first, *others = (Markup.escape(sentence) for sentence in self.findings.sentences)
        sentences = Markup("<br>").join([Markup("<b>{}</b>").format(first), *others])
        return Markup("<p><b>{}</b>: {}</p><p>{}</p>{}").format(
            name, link, sentences, html_table(("", "of all requests"), rows)
        )

    def __repr__(self) -> str:
        return f"Report({str(self.page)!r})"
