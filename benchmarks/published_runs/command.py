"""The command `purgatory bench`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from request_purgatory.cli import session
from request_purgatory.cli.command import Force, command
from request_purgatory.cli.converters import LocalPath, Rates, count
from request_purgatory.cli.exit_codes import ExitCode
from request_purgatory.cli.failures import describe_failure
from request_purgatory.cli.output import OutputOptions
from request_purgatory.cli.settings_options import FieldsOf
from request_purgatory.pipeline.analysis.report import write_report
from request_purgatory.pipeline.output_folder import output_folder
from request_purgatory.pipeline.spark.job_progress import step
from request_purgatory.published_benchmark.report_section import (
    benchmark_section,
    print_published,
)
from request_purgatory.published_benchmark.run import CASES, DESIGNS
from request_purgatory.published_benchmark.runner import BenchmarkPlan, run_published


@command(describe_failure)
def bench(
    *,
    out: LocalPath,
    plan: Annotated[
        BenchmarkPlan,
        FieldsOf(
            BenchmarkPlan,
            only=("cases", "designs", "rates", "requests", "rounds"),
            changes={
                "cases": Annotated[
                    list[str],
                    Parameter(name="--case", choices=tuple(CASES), consume_multiple=(1, None)),
                ],
                "designs": Annotated[
                    list[str],
                    Parameter(name="--design", choices=tuple(DESIGNS), consume_multiple=(1, None)),
                ],
                "rates": Rates,
                "requests": Parameter(converter=count),
                "rounds": Parameter(converter=count),
            },
        ),
    ],
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Run the published benchmark on both designs, in real time, and report the results.

    Args:
        out: The folder to make.
        plan: The runs.
        force: See `Force`.
        output: See `Output`.

    Returns:
        OK.
    """
    with output_folder(out, replace=force) as folder:
        # Spark starts after the measurements, which it would disturb.
        run_published(plan, folder, output.console)
        with (
            session.open_session() as spark,
            step(output.console, spark, "summarize, and write the report"),
        ):
            section = benchmark_section(spark, folder)
            write_report(spark, [], folder / "report.html", benchmarks=[section])
    path = out / "report.html"
    output.print_result({"path": str(out), "report": str(path), "questions": section["questions"]})
    print_published(output.console, section)
    output.console.print(f"report: [bold]{escape(str(path))}[/]", soft_wrap=True)
    return ExitCode.OK
