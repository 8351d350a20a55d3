"""The arguments of the command `purgatory`."""

from __future__ import annotations

import argparse
import re
from importlib.metadata import version
from pathlib import Path

from request_purgatory import __compiled__
from request_purgatory.cli.broker import add_broker_commands

_EXAMPLES = """\
examples:
  purgatory run                                    both published workloads, both designs, one report
  purgatory run --trace spans/ --timeout-ms 1000   the same for a folder of spans
  purgatory workload --case high --requests 100000 --out high
  purgatory import spans/ --out spans.trace --mark 2022-08-22T05:27:06=incident
  purgatory replay spans.trace --out spans.wheel --tick-ms 10
  purgatory analyze spans.trace --replay spans.wheel --timeouts 100,500,1000 --out spans.analysis
  purgatory report spans.analysis --out report.html
  purgatory stream in/requests in/events --out out --checkpoint out.checkpoint
                                                   the same rules on rows as they come
  purgatory simulate --hosts 1000 --requests-per-host 100000 --out simulated
                                                   a cluster larger than the machine, without a trace
  purgatory archive purgatory.tar.gz               what a Spark cluster's machines need to take part
  purgatory broker --nodes 3                       a light Kafka cluster, for tests and development
  purgatory bench --out runs/bench                 the published benchmark, in real time

exit codes: 0 done, 1 failed, 2 bad input, 3 replay and batch outcomes differ, 4 something to install is missing
"""


def _timeouts(text: str) -> list[int]:
    try:
        timeouts = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"whole numbers of milliseconds with commas between them, not {text!r}"
        ) from None
    if min(timeouts) < 0 or max(timeouts) >= 2**31:
        raise argparse.ArgumentTypeError(f"from 0 to 2,147,483,647, not {text!r}")
    return timeouts


def _mapping(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (equals and ours and theirs):
        raise argparse.ArgumentTypeError(f"OUR_FIELD=THEIR_COLUMN, not {text!r}")
    return ours, theirs


def _kafka_option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name):
        # Not what was given: it may well be a password.
        raise argparse.ArgumentTypeError("NAME=VALUE")
    return name, value


def _path(text: str) -> Path:
    if re.match(r"[a-z][a-z0-9+.-]*://", text):
        raise argparse.ArgumentTypeError(
            f"a path of this machine's file system, on a cluster one that all machines have mounted, not {text!r}; "
            "from Python, DataFrames of any source will do"
        )
    return Path(text)


def _count(text: str) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number, not {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {text}")
    return number


def make_parser() -> argparse.ArgumentParser:
    build = "compiled" if __compiled__ else "interpreted"
    parser = argparse.ArgumentParser(
        prog="purgatory",
        description="Makes or imports request traces, replays them through a real request purgatory, and reports.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"request-purgatory {version('request-purgatory')}, core {build}",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="log more, and show the whole traceback of a failure",
    )
    replaces = argparse.ArgumentParser(add_help=False)
    replaces.add_argument(
        "--force", action="store_true", help="replace an output that is there already"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(
        name: str, what: str, example: str, *, makes_whole: bool = True
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=f"example:\n  purgatory {example}",
            parents=[common, replaces] if makes_whole else [common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(command=name)
        added.register("type", Path, _path)
        return added

    run = command(
        "run", "do all of it: traces, replays in both designs, analyses, one report",
        "run --trace spans/ --timeout-ms 1000 --timeouts 100,500,1000,5000",
    )  # fmt: skip
    run.add_argument(
        "--trace",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a trace to import; may be repeated",
    )
    run.add_argument(
        "--workload",
        nargs="+",
        choices=("low", "high"),
        help="synthetic workloads to make (default: both, or none with --trace)",
    )
    run.add_argument(
        "--requests",
        type=_count,
        default=1_000_000,
        metavar="N",
        help="requests in each workload (1,000,000)",
    )
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="the run's folder (default: runs/ and the time)"
    )
    _add_timeouts(run)
    _add_max_worker_mb(run, 2048)
    _add_import_options(run)

    workload = command(
        "workload",
        "make the published workload as a trace",
        "workload --case high --requests 100000 --out high",
    )
    workload.add_argument(
        "--case", choices=("low", "high"), default="low", help="low or high share of timeouts (low)"
    )
    workload.add_argument("--requests", type=_count, metavar="N", help="how many (1,000,000)")
    workload.add_argument(
        "--rate",
        type=float,
        metavar="PER_SECOND",
        help="arrivals a second, all hosts together (20,000)",
    )
    workload.add_argument(
        "--hosts", type=_count, metavar="N", help="processes to spread them over (8)"
    )
    workload.add_argument(
        "--keys", type=_count, metavar="N", help="shared watch keys of a host (1,000)"
    )
    workload.add_argument(
        "--shared-keys", type=int, metavar="N", help="how many of them each request watches (2)"
    )
    workload.add_argument(
        "--timeout-ms", type=int, metavar="MS", help="each request's timeout (200)"
    )
    workload.add_argument(
        "--seed", type=int, metavar="N", help="everything random follows from it (1)"
    )
    workload.add_argument(
        "--requests-per-host",
        type=_count,
        metavar="N",
        help="draw every host by itself, with so many, as simulate does",
    )
    workload.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the trace folder to make"
    )

    importer = command(
        "import", "turn a recorded trace into requests and events",
        "import calls.csv --map arrived_at=start --map ended_at=end --time-unit ms --timeout-ms 500 --out calls",
    )  # fmt: skip
    importer.add_argument(
        "source", type=Path, help="a file, or a folder of files: CSV (also .gz, .bz2) or Parquet"
    )
    importer.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the trace folder to make"
    )
    _add_import_options(importer)

    replay = command(
        "replay",
        "drive a real purgatory with a trace, on virtual time",
        "replay high --design legacy --out high.legacy",
    )
    replay.add_argument("trace", type=Path, help="a trace folder")
    _add_purgatory_options(replay)
    _add_max_worker_mb(replay, 2048)
    replay.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the replay folder to make"
    )

    analyze = command(
        "analyze", "compute outcomes, compare replays with them, and ask what other timeouts would do",
        "analyze high --replay high.wheel --replay high.legacy --out high.analysis",
    )  # fmt: skip
    analyze.add_argument("trace", type=Path, help="a trace folder")
    analyze.add_argument(
        "--replay",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a replay of it; may be repeated",
    )
    analyze.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the analysis folder to make"
    )
    _add_timeouts(analyze)
    _add_max_worker_mb(analyze, 2048)

    report = command(
        "report",
        "write one HTML file with pictures",
        "report high.analysis low.analysis --out report.html",
    )
    report.add_argument("analysis", type=Path, nargs="*", help="an analysis folder")
    report.add_argument(
        "--bench",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a benchmark's folder; may be repeated",
    )
    report.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the HTML file to write"
    )
    _add_stream(command(
        "stream", "find out how requests end as they come, by a streaming job",
        "stream low/requests low/events --finish --out low.stream --checkpoint low.checkpoint", makes_whole=False,
    ))  # fmt: skip
    _add_simulate(command(
        "simulate", "make and replay the workload of a cluster larger than the machine, and extrapolate",
        "simulate --hosts 1000 --requests-per-host 100000 --target-per-day 1e12 --out simulated",
    ))  # fmt: skip
    archive = command(
        "archive", "pack the Python environment that a cluster's machines need, for spark-submit --archives",
        "archive purgatory.tar.gz",
    )  # fmt: skip
    archive.add_argument("out", type=Path, help="the .tar.gz to make")
    archive.add_argument(
        "--source",
        metavar="WHAT",
        help="a wheel, a checkout or a requirement of pip (what this installation was made from)",
    )
    bench = command(
        "bench", "run the published benchmark on both designs, in real time, and report it",
        "bench --case low --rates 100000,0 --rounds 1 --out runs/bench",
    )  # fmt: skip
    bench.add_argument(
        "--case",
        nargs="+",
        choices=("low", "high"),
        default=["low", "high"],
        help="low or high latencies (both)",
    )
    bench.add_argument(
        "--design",
        nargs="+",
        choices=("wheel", "legacy"),
        default=["wheel", "legacy"],
        help="which (both)",
    )
    bench.add_argument(
        "--rates",
        type=_rates,
        metavar="N,N,...",
        help="target rates, requests a second; 0 is no limit (25,000 to 400,000, and 0)",
    )
    bench.add_argument(
        "--requests",
        type=_count,
        default=1_000_000,
        metavar="N",
        help="most requests in a run (1,000,000)",
    )
    bench.add_argument(
        "--rounds", type=_count, default=3, metavar="N", help="how often each is run (3)"
    )
    bench.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to make")
    add_broker_commands(command)
    return parser


def _rates(text: str) -> list[int]:
    try:
        rates = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"whole numbers of requests a second with commas between them, not {text!r}"
        ) from None
    if min(rates) < 0:
        raise argparse.ArgumentTypeError(f"at least 0 each, not {text!r}")
    return rates


def _add_stream(stream: argparse.ArgumentParser) -> None:
    stream.add_argument(
        "requests",
        help="a folder that files are added to; kafka://HOST:PORT/TOPIC; or rate://ROWS_PER_SECOND",
    )
    stream.add_argument("events", help="likewise")
    stream.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="where outcomes and late rows are added: a folder, or kafka://HOST:PORT/TOPIC",
    )
    stream.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="where the stream notes how far it is, and goes on from",
    )
    stream.add_argument(
        "--format", choices=("parquet", "json"), default="parquet", help="of all files (parquet)"
    )
    stream.add_argument(
        "--files-per-batch",
        type=_count,
        metavar="N",
        help="new files of an input in one batch (all)",
    )
    stream.add_argument(
        "--rows-per-batch",
        type=_count,
        metavar="N",
        help="messages of an input topic in one batch (all)",
    )
    stream.add_argument(
        "--kafka-option",
        dest="kafka_options",
        type=_kafka_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of Kafka's clients, such as security.protocol=SSL; may be repeated",
    )
    stream.add_argument(
        "--kafka-connector",
        metavar="WHICH",
        help="Maven coordinates or jars, or 'provided' (that of the installed Spark)",
    )
    stream.add_argument(
        "--shards", type=_count, default=16, metavar="N", help="parts of the state (16)"
    )
    stream.add_argument(
        "--route",
        choices=("host", "key"),
        default="host",
        help="shards by host, or by key where each request has one (host)",
    )
    stream.add_argument(
        "--delay-ms",
        type=int,
        default=10_000,
        metavar="MS",
        help="how far rows may be out of order (10000)",
    )
    stream.add_argument(
        "--remember-ms",
        type=int,
        default=86_400_000,
        metavar="MS",
        help="how long keys that nobody watches are known (a day)",
    )
    stream.add_argument(
        "--max-shard-mb",
        type=_count,
        default=2048,
        metavar="MB",
        help="memory for one shard's rows (2048)",
    )
    until = stream.add_mutually_exclusive_group()
    until.add_argument("--available", action="store_true", help="take what is there now, and stop")
    until.add_argument(
        "--finish",
        action="store_true",
        help="take what is there now, settle all that waits, and stop",
    )
    until.add_argument(
        "--idle",
        type=float,
        metavar="SECONDS",
        help="times are the present: of a quiet input, nothing older than this is expected",
    )
    stream.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="add a line of JSON for each batch to this file",
    )
    stream.add_argument(
        "--metrics-listen",
        metavar="[HOST:]PORT",
        help="answer /metrics there for Prometheus (host: 127.0.0.1; port 0: any)",
    )
    stream.add_argument(
        "--every",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="from batch to batch (0: one after another)",
    )


def _add_simulate(simulate: argparse.ArgumentParser) -> None:
    simulate.add_argument(
        "--case", choices=("low", "high"), default="low", help="low or high share of timeouts (low)"
    )
    simulate.add_argument(
        "--hosts",
        type=_count,
        default=1000,
        metavar="N",
        help="processes with a purgatory each (1,000)",
    )
    simulate.add_argument(
        "--requests-per-host", type=_count, default=100_000, metavar="N", help="how many (100,000)"
    )
    simulate.add_argument(
        "--rate-per-host",
        type=float,
        default=2500.0,
        metavar="PER_SECOND",
        help="arrivals a second (2,500)",
    )
    simulate.add_argument(
        "--keys", type=_count, metavar="N", help="shared watch keys of a host (1,000)"
    )
    simulate.add_argument(
        "--shared-keys", type=int, metavar="N", help="how many of them each request watches (2)"
    )
    simulate.add_argument(
        "--timeout-ms", type=int, metavar="MS", help="each request's timeout (200)"
    )
    simulate.add_argument(
        "--median-ms",
        type=float,
        metavar="MS",
        help="median of the service times (by case: 20, 200)",
    )
    simulate.add_argument(
        "--p75-ms", type=float, metavar="MS", help="their 75th percentile (by case: 60, 400)"
    )
    simulate.add_argument(
        "--seed", type=int, metavar="N", help="everything random follows from it (1)"
    )
    _add_purgatory_options(simulate)
    simulate.add_argument(
        "--partitions", type=_count, metavar="N", help="Spark tasks (16 to a core)"
    )
    _add_max_worker_mb(simulate, 1024)
    target = simulate.add_argument_group("extrapolating")
    target.add_argument(
        "--target-per-day", type=float, default=1e12, metavar="N", help="requests a day (1e12)"
    )
    target.add_argument(
        "--utilization",
        type=float,
        default=0.7,
        metavar="SHARE",
        help="busy share of the cores' time (0.7)",
    )
    target.add_argument(
        "--executor-cores", type=_count, default=4, metavar="N", help="cores of an executor (4)"
    )
    simulate.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder to make"
    )


def _add_purgatory_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--design",
        choices=("wheel", "legacy"),
        default="wheel",
        help="timing wheel, or Kafka 0.8's (wheel)",
    )
    parser.add_argument(
        "--tick-ms", type=int, default=1, metavar="MS", help="the wheel's resolution (1)"
    )
    parser.add_argument(
        "--wheel-size", type=int, default=20, metavar="N", help="buckets of a wheel (20)"
    )
    parser.add_argument(
        "--purge-interval",
        type=int,
        default=1000,
        metavar="N",
        help="ended operations, or requests, to a purge (1000)",
    )
    parser.add_argument(
        "--shards", type=int, default=512, metavar="N", help="parts of the watch keys' map (512)"
    )


def _add_max_worker_mb(parser: argparse.ArgumentParser, default: int) -> None:
    told = f"what one host may take in a Python worker ({default})"
    parser.add_argument("--max-worker-mb", type=_count, default=default, metavar="MB", help=told)


def _add_timeouts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeouts",
        type=_timeouts,
        metavar="MS,MS,...",
        help="timeouts to try in what-if (chosen by trace)",
    )


def _add_import_options(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("reading traces")
    options.add_argument(
        "--format",
        choices=("spans", "azure-llm", "columns", "recorded"),
        help="found out from the columns",
    )
    options.add_argument(
        "--map",
        type=_mapping,
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="which column holds what; may be repeated",
    )
    options.add_argument(
        "--time-unit", choices=("iso", "s", "ms", "us", "ns"), help="of times that are numbers"
    )
    options.add_argument(
        "--timeout-ms",
        type=int,
        metavar="MS",
        help="each request's timeout (1000; azure-llm: 10000)",
    )
    options.add_argument(
        "--keys",
        choices=("children", "operations"),
        default="children",
        help="spans: what requests watch",
    )
    options.add_argument(
        "--ms-per-context-token",
        type=float,
        metavar="MS",
        help="azure-llm: cost that service times derive from",
    )
    options.add_argument(
        "--ms-per-generated-token", type=float, metavar="MS", help="azure-llm: likewise"
    )
    options.add_argument(
        "--mark",
        action="append",
        default=[],
        metavar="TIME[=LABEL]",
        help="compare before and after this moment; may be repeated",
    )
