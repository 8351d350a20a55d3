"""One HTML page of a benchmark's results: `python -m benchmarks.report FOLDER PAGE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks.report.results import require_measurements
from benchmarks.report.section import benchmark_section, print_published
from purgatory_spark._analysis.report import write_report
from purgatory_spark._spark.session import create_session


def main(arguments: list[str] | None = None) -> None:
    """Write the page, and print the published benchmark's table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="the results of `python -m benchmarks`")
    parser.add_argument("page", type=Path, help="the HTML file to write")
    options = parser.parse_args(arguments)
    require_measurements(options.folder)
    spark = create_session()
    try:
        section = benchmark_section(spark, options.folder)
        write_report([], options.page, benchmarks=[section])
    finally:
        spark.stop()
    print_published(Console(), section)
    print(f"report: {options.page}")


if __name__ == "__main__":
    main()
