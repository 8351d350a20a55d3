"""The command `purgatory`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from request_purgatory.pipeline.traces import ImportSettings

# Exit codes.
OK = 0
FAILED = 1
BAD_INPUT = 2
OUTCOMES_DIFFER = 3
MISSING_TOOL = 4
INTERRUPTED = 130

_EXAMPLES = """\
examples:
  purgatory run                                    both published workloads, both designs, one report
  purgatory run --trace spans/ --timeout-ms 1000   the same for a folder of spans
  purgatory workload --case high --requests 100000 --out high
  purgatory import spans/ --out spans.trace --mark 2022-08-22T05:27:06=incident
  purgatory replay spans.trace --out spans.wheel --tick-ms 10
  purgatory analyze spans.trace --replay spans.wheel --timeouts 100,500,1000 --out spans.analysis
  purgatory report spans.analysis --out report.html

exit codes: 0 done, 1 failed, 2 bad input, 3 replay and batch outcomes differ, 4 something to install is missing
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        from request_purgatory.pipeline.failures import describe_failure
    except ModuleNotFoundError as missing:
        return _tell_missing(missing)
    if not options.verbose:
        # PySpark prints its errors as JSON, too; what they say is told below.
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        code: int = options.command(options)
    except ModuleNotFoundError as missing:
        return _tell_missing(missing)
    except KeyboardInterrupt:
        print("purgatory: interrupted; nothing was left half-written", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        code, message = describe_failure(error)
        if options.verbose:
            logging.getLogger(__name__).exception("the command failed")
        print(f"purgatory: {message}", file=sys.stderr)
    return code


def _tell_missing(missing: ModuleNotFoundError) -> int:
    print(
        f"purgatory: the Python package {missing.name!r} is not installed.\n"
        "The pipeline needs the extra [spark]: pip install 'request-purgatory[spark]'",
        file=sys.stderr,
    )
    return MISSING_TOOL


# -- the commands


def _workload(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outputs import output_folder
    from request_purgatory.pipeline.progress import step
    from request_purgatory.pipeline.run import print_rows
    from request_purgatory.pipeline.traces import make_workload_trace
    from request_purgatory.pipeline.workload import CASES

    names = ("requests", "rate", "hosts", "keys", "shared_keys", "timeout_ms", "seed")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    workload = replace(CASES[options.case], **given)
    with _spark() as (spark, console), output_folder(options.out, replace=options.force) as target:
        with step(console, spark, f"make workload {workload.name}: {workload.requests:,} requests"):
            trace = make_workload_trace(spark, workload, target)
        print_rows(console, trace)
    _next(console, options.out, f"replay {options.out} --out NAME")
    return OK


def _import(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outputs import output_folder
    from request_purgatory.pipeline.progress import step
    from request_purgatory.pipeline.run import print_rows
    from request_purgatory.pipeline.traces import import_trace

    settings = _import_settings(options)
    with _spark() as (spark, console), output_folder(options.out, replace=options.force) as target:
        with step(console, spark, f"import {options.source}"):
            trace = import_trace(spark, options.source, target, settings)
        print_rows(console, trace)
        if not trace.manifest["rows"]["requests out"]:
            console.print("[yellow]no request is left[/]: see the reasons above, and the rows in the folder rejects")
    _next(console, options.out, f"replay {options.out} --out NAME")
    return OK


def _replay(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outputs import output_folder
    from request_purgatory.pipeline.progress import step
    from request_purgatory.pipeline.replay import ReplaySettings
    from request_purgatory.pipeline.run import replay_trace
    from request_purgatory.pipeline.traces import Trace

    trace = Trace(options.trace)
    names = ("design", "tick_ms", "wheel_size", "purge_interval", "shards")
    settings = ReplaySettings(**{name: getattr(options, name) for name in names})
    with (
        _spark() as (spark, console),
        output_folder(options.out, replace=options.force) as target,
        step(console, spark, f"replay {trace.name}, {settings.design}"),
    ):
        replay_trace(spark, trace, settings, target)
    _next(console, options.out, f"analyze {options.trace} --replay {options.out} --out NAME")
    return OK


def _analyze(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.analysis import Analysis, Replayed, analyze
    from request_purgatory.pipeline.outputs import output_folder
    from request_purgatory.pipeline.progress import step
    from request_purgatory.pipeline.run import print_summary
    from request_purgatory.pipeline.traces import Trace

    trace = Trace(options.trace)
    replays = [Replayed(path) for path in options.replay]
    for replayed in replays:
        replayed.settings  # noqa: B018 - tells of a folder that is none before any work is done
    with _spark() as (spark, console):
        with output_folder(options.out, replace=options.force) as target, step(console, spark, f"analyze {trace.name}"):
            analyze(spark, trace, replays, target, options.timeouts)
        differing = print_summary(console, spark, [Analysis(options.out)])
    _next(console, options.out, f"report {options.out} --out report.html")
    return _agreed(console, differing)


def _report(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.analysis import Analysis
    from request_purgatory.pipeline.outputs import OutputExistsError
    from request_purgatory.pipeline.progress import step
    from request_purgatory.pipeline.report import write_report

    analyses = [Analysis(path) for path in options.analysis]
    for analysis in analyses:
        analysis.manifest  # noqa: B018 - as above
    out = options.out.absolute()
    if out.is_dir():
        raise OutputExistsError(f"{options.out} is a folder, and the report is one file: choose another --out")
    if out.exists() and not options.force:
        raise OutputExistsError(f"{options.out} exists already: choose another --out, or --force to replace it")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    try:
        with _spark() as (spark, console), step(console, spark, "write the report"):
            write_report(spark, analyses, partial).replace(out)
    finally:
        partial.unlink(missing_ok=True)
    _print_report(console, options.out)
    return OK


def _run(options: argparse.Namespace) -> int:
    from request_purgatory.pipeline.outputs import output_folder
    from request_purgatory.pipeline.replay import DESIGNS, ReplaySettings
    from request_purgatory.pipeline.run import RunPlan, print_summary, run
    from request_purgatory.pipeline.workload import CASES

    # Without a trace the workloads are the job; with one, they are made only when they are asked for.
    cases = options.workload if options.workload is not None else ([] if options.trace else list(CASES))
    plan = RunPlan(
        workloads=[replace(CASES[case], requests=options.requests) for case in cases],
        sources=options.trace,
        imports=_import_settings(options),
        replays=tuple(ReplaySettings(design=design) for design in DESIGNS),
        timeouts=options.timeouts,
    )
    out = options.out or Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    with _spark() as (spark, console):
        with output_folder(out, replace=options.force) as target:
            analyses = run(spark, plan, target, console)
        moved = [replace(analysis, path=out.resolve() / analysis.path.relative_to(target)) for analysis in analyses]
        differing = print_summary(console, spark, moved)
    _print_report(console, out / "report.html")
    return _agreed(console, differing)


# -- what they share


@contextmanager
def _spark() -> Iterator[tuple[SparkSession, Console]]:
    from rich.console import Console

    from request_purgatory.pipeline.session import create_session

    # A file or a pipe has no width: then the tables' own, instead of the 80 columns of a terminal that nobody looks at.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    session = create_session()
    try:
        yield session, console
    finally:
        session.stop()


def _next(console: Console, made: Path, command: str) -> None:
    from rich.markup import escape

    console.print(f"made [bold]{escape(str(made))}[/]; next: purgatory {escape(command)}", soft_wrap=True)


def _print_report(console: Console, made: Path) -> None:
    from rich.markup import escape

    console.print(f"report: [bold]{escape(str(made))}[/]", soft_wrap=True)


def _agreed(console: Console, differing: int) -> int:
    if not differing:
        return OK
    console.print(f"[red]{differing:,} rows of the replays differ from the batch outcomes[/]: see the table agreement")
    return OUTCOMES_DIFFER


def _import_settings(options: argparse.Namespace) -> ImportSettings:
    from request_purgatory.pipeline.traces import ImportSettings, Mark

    return ImportSettings(
        format=options.format,
        columns=dict(options.map),
        time_unit=options.time_unit,
        timeout_ms=options.timeout_ms,
        keys=options.keys,
        ms_per_context_token=options.ms_per_context_token,
        ms_per_generated_token=options.ms_per_generated_token,
        marks=tuple(Mark.parse(text) for text in options.mark),
    )


# -- the arguments


def _timeouts(text: str) -> list[int]:
    try:
        timeouts = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"whole numbers of milliseconds with commas between them, not {text!r}") from None
    if min(timeouts) < 0 or max(timeouts) >= 2**31:
        raise argparse.ArgumentTypeError(f"from 0 to 2,147,483,647, not {text!r}")
    return timeouts


def _mapping(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (equals and ours and theirs):
        raise argparse.ArgumentTypeError(f"OUR_FIELD=THEIR_COLUMN, not {text!r}")
    return ours, theirs


def _count(text: str) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number, not {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {text}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="purgatory",
        description="Makes or imports request traces, replays them through a real request purgatory, and reports.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"request-purgatory {version('request-purgatory')}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-v", "--verbose", action="store_true", help="log more, and show the whole traceback of a failure")
    common.add_argument("--force", action="store_true", help="replace an output that is there already")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], what: str, example: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=f"example:\n  purgatory {example}",
            parents=[common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(command=run)
        return added

    run = command(
        "run", _run, "do all of it: traces, replays in both designs, analyses, one report",
        "run --trace spans/ --timeout-ms 1000 --timeouts 100,500,1000,5000",
    )  # fmt: skip
    run.add_argument("--trace", type=Path, action="append", default=[], metavar="PATH", help="a trace to import; may be repeated")
    run.add_argument(
        "--workload", nargs="+", choices=("low", "high"), help="synthetic workloads to make (default: both, or none with --trace)"
    )
    run.add_argument("--requests", type=_count, default=1_000_000, metavar="N", help="requests in each workload (1,000,000)")
    run.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (default: runs/ and the time)")
    _add_timeouts(run)
    _add_import_options(run)

    workload = command(
        "workload", _workload, "make the published workload as a trace", "workload --case high --requests 100000 --out high"
    )
    workload.add_argument("--case", choices=("low", "high"), default="low", help="low or high share of timeouts (low)")
    workload.add_argument("--requests", type=_count, metavar="N", help="how many (1,000,000)")
    workload.add_argument("--rate", type=float, metavar="PER_SECOND", help="arrivals a second, all hosts together (20,000)")
    workload.add_argument("--hosts", type=_count, metavar="N", help="processes to spread them over (8)")
    workload.add_argument("--keys", type=_count, metavar="N", help="shared watch keys of a host (1,000)")
    workload.add_argument("--shared-keys", type=int, metavar="N", help="how many of them each request watches (2)")
    workload.add_argument("--timeout-ms", type=int, metavar="MS", help="each request's timeout (200)")
    workload.add_argument("--seed", type=int, metavar="N", help="everything random follows from it (1)")
    workload.add_argument("--out", type=Path, required=True, metavar="DIR", help="the trace folder to make")

    importer = command(
        "import", _import, "turn a recorded trace into requests and events",
        "import calls.csv --map arrived_at=start --map ended_at=end --time-unit ms --timeout-ms 500 --out calls",
    )  # fmt: skip
    importer.add_argument("source", type=Path, help="a file, or a folder of files: CSV (also .gz, .bz2) or Parquet")
    importer.add_argument("--out", type=Path, required=True, metavar="DIR", help="the trace folder to make")
    _add_import_options(importer)

    replay = command(
        "replay", _replay, "drive a real purgatory with a trace, on virtual time", "replay high --design legacy --out high.legacy"
    )
    replay.add_argument("trace", type=Path, help="a trace folder")
    replay.add_argument("--design", choices=("wheel", "legacy"), default="wheel", help="timing wheel, or Kafka 0.8's (wheel)")
    replay.add_argument("--tick-ms", type=int, default=1, metavar="MS", help="the wheel's resolution (1)")
    replay.add_argument("--wheel-size", type=int, default=20, metavar="N", help="buckets of a wheel (20)")
    replay.add_argument(
        "--purge-interval", type=int, default=1000, metavar="N", help="ended operations, or requests, to a purge (1000)"
    )
    replay.add_argument("--shards", type=int, default=512, metavar="N", help="parts of the watch keys' map (512)")
    replay.add_argument("--out", type=Path, required=True, metavar="DIR", help="the replay folder to make")

    analyze = command(
        "analyze", _analyze, "compute outcomes, compare replays with them, and ask what other timeouts would do",
        "analyze high --replay high.wheel --replay high.legacy --out high.analysis",
    )  # fmt: skip
    analyze.add_argument("trace", type=Path, help="a trace folder")
    analyze.add_argument(
        "--replay", type=Path, action="append", default=[], metavar="DIR", help="a replay of it; may be repeated"
    )
    analyze.add_argument("--out", type=Path, required=True, metavar="DIR", help="the analysis folder to make")
    _add_timeouts(analyze)

    report = command(
        "report", _report, "write one HTML file with pictures", "report high.analysis low.analysis --out report.html"
    )
    report.add_argument("analysis", type=Path, nargs="+", help="an analysis folder")
    report.add_argument("--out", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    return parser


def _add_timeouts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeouts", type=_timeouts, metavar="MS,MS,...", help="timeouts to try in what-if (chosen by trace)")


def _add_import_options(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("reading traces")
    options.add_argument("--format", choices=("spans", "azure-llm", "columns", "recorded"), help="found out from the columns")
    options.add_argument(
        "--map",
        type=_mapping,
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="which column holds what; may be repeated",
    )
    options.add_argument("--time-unit", choices=("iso", "s", "ms", "us", "ns"), help="of times that are numbers")
    options.add_argument("--timeout-ms", type=int, metavar="MS", help="each request's timeout (1000; azure-llm: 10000)")
    options.add_argument("--keys", choices=("children", "operations"), default="children", help="spans: what requests watch")
    options.add_argument(
        "--ms-per-context-token", type=float, metavar="MS", help="azure-llm: cost that service times derive from"
    )
    options.add_argument("--ms-per-generated-token", type=float, metavar="MS", help="azure-llm: likewise")
    options.add_argument(
        "--mark",
        action="append",
        default=[],
        metavar="TIME[=LABEL]",
        help="compare before and after this moment; may be repeated",
    )


if __name__ == "__main__":
    sys.exit(main())
