"""Tests of reading an analysis' tables without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._errors import TraceFormatError


@pytest.fixture
def analysis(tmp_path: Path) -> Analysis:
    """Write a table in two files, as two tasks do, with the last row first."""
    folder = tmp_path / "hosts"
    folder.mkdir()
    files = [
        {"host": ["d", "a"], "design": ["wheel", "legacy"], "requests": [1, 5]},
        {"host": ["b", "a", "c"], "design": ["legacy", "wheel", "wheel"], "requests": [5, 5, 9]},
    ]
    for number, columns in enumerate(files):
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet", row_group_size=1)
    return Analysis(tmp_path)


def test_first_rows_are_of_all_files(analysis: Analysis) -> None:
    order = [("requests", "descending"), ("host", "ascending"), ("design", "descending")]
    rows, total = analysis.first_rows("hosts", order, 3)
    assert [tuple(row.values()) for row in rows] == [
        ("c", "wheel", 9),
        ("a", "wheel", 5),
        ("a", "legacy", 5),
    ]
    assert total == 5
    rows, total = analysis.first_rows("hosts", order, 3, design="legacy")
    assert ([row["host"] for row in rows], total) == (["a", "b"], 2)
    assert analysis.first_rows("hosts", order, 3, design="none") == ([], 0)


def test_damaged_table_is_named(analysis: Analysis) -> None:
    (analysis.path / "hosts" / "part-0.parquet").write_bytes(b"PAR1torn")
    with pytest.raises(TraceFormatError, match="hosts: can't be read as Parquet"):
        analysis.rows("hosts")
