"""The project's performance targets, and how a run compares with them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from benchmarks import peers
from benchmarks.summary import Medians, number

_COLUMNS = ("what", "metric", "target", "moonshot", "measured", "verdict", "best peer")

NOT_MEASURED = "not measured"
NOT_MET = "not met"
TARGET_MET = "target met"
MOONSHOT_MET = "moonshot met"
PUBLISHED = "published"  # a figure without a target


@dataclass(frozen=True)
class Target:
    """A figure to reach.

    Attributes:
        question: The question of the measurement.
        case: The label of its case.
        metric: The metric.
        target: The figure to reach, in the metric's unit; None for none.
        moonshot: An ambitious figure; None for none.
        higher_is_better: False for times and bytes.
        at_least_as: A side whose median in the same run is the target.
        times: A side whose median divides ours; target and moonshot are for that ratio.
    """

    name: str
    question: str
    case: str
    metric: str
    target: float | None
    moonshot: float | None
    higher_is_better: bool = False
    at_least_as: str | None = None
    times: str | None = None

    def verdict(self, measured: float | None, target: float | None = None) -> str:
        """Return one of this module's words for a measured value.

        Args:
            measured: The value; None if there is none.
            target: The target, where it is another side's figure.
        """
        target = self.target if target is None else target
        if measured is None or (target is None and (self.moonshot is None or self.at_least_as)):
            return NOT_MEASURED
        sign = -1 if self.higher_is_better else 1
        if self.moonshot is not None and sign * measured <= sign * self.moonshot:
            return MOONSHOT_MET
        if target is None:
            return PUBLISHED
        return TARGET_MET if sign * measured <= sign * target else NOT_MET


#: The targets that every run reports.
TARGETS = [
    *(
        Target(
            f"schedule and cancel, {pending:,} pending, times Kafka's",
            "timer_cycle",
            f"pending={pending}",
            "ns_per_operation",
            0.5,
            0.4,
            times=peers.KAFKA,
        )
        for pending in (1_000, 10_000, 100_000, 1_000_000)
    ),
    Target("add 1,000,000 timers", "timer_add", "count=1000000", "ns_per_operation", 100, 50),
    Target(
        "cancel 1,000,000 in random order",
        "timer_cancel_random",
        "count=1000000",
        "ns_per_operation",
        100,
        50,
    ),
    Target(
        "expire 1,000,000 timers",
        "timer_expire",
        "count=1000000 span_ms=60000",
        "ns_per_operation",
        300,
        200,
    ),
    Target(
        "watch and complete, one key, times Kafka's",
        "purgatory_cycle",
        "keys=1 watchers=1",
        "ns_per_operation",
        0.8,
        0.65,
        times=peers.KAFKA,
    ),
    Target(
        "bytes per pending handle",
        "memory",
        "kind=handle count=1000000",
        "bytes_per_pending",
        100,
        64,
    ),
    Target(
        "bytes per pending operation, 65,536 keys",
        "memory",
        "kind=operation count=1000000 keys=65536",
        "bytes_per_pending",
        199,
        150,
    ),
    *(
        target
        for case, (rate, high_rate), (list_rate, high_list_rate) in (
            ("low", (1.35, 1.5), (0.95, 1.1)),
            ("high", (1.6, 1.8), (0.85, 1.0)),
        )
        for target in (
            Target(
                f"published benchmark, saturation, {case}, times Kafka's",
                "published",
                f"case={case} rate=0 count=1000000",
                "enqueue_rate",
                rate,
                high_rate,
                higher_is_better=True,
                times=peers.KAFKA,
            ),
            Target(
                f"the same, times Kafka's with our queue of answers, {case}",
                "published",
                f"case={case} rate=0 count=1000000",
                "enqueue_rate",
                list_rate,
                high_list_rate,
                higher_is_better=True,
                times=peers.KAFKA_LIST_QUEUE,
            ),
            Target(
                f"the same, CPU seconds per million, {case}",
                "published",
                f"case={case} rate=0 count=1000000",
                "cpu_seconds_per_million",
                None,
                1.5,
                at_least_as=peers.KAFKA,
            ),
            Target(
                f"the same, times the 0.8 design, {case}",
                "published",
                f"case={case} rate=0 count=1000000",
                "enqueue_rate",
                None,
                4.2 if case == "high" else None,
                higher_is_better=True,
                times=peers.LEGACY,
            ),
        )
    ),
    Target(
        "published benchmark with late answers, saturation, high, times Kafka's",
        "published",
        "case=high rate=0 count=1000000 late_answers=1",
        "enqueue_rate",
        1.3,
        1.6,
        higher_is_better=True,
        times=peers.KAFKA,
    ),
    # Runs of a million requests, so a run's seconds are those per million.
    *(
        Target(
            f"published benchmark{form}, high, collector's seconds per million",
            "published",
            f"case=high rate=0 count=1000000{parameter}",
            "gc_seconds",
            most,
            0,
        )
        for form, parameter, most in (
            ("", "", 0.05),
            (" with late answers", " late_answers=1", 0.1),
        )
    ),
]

# Requests as futures on threads, and pauses
TARGETS += [
    Target(
        "hold, one at a time, times a bare Future's",
        "hold",
        "what=turns count=100000",
        "ns_per_operation",
        0.85,
        0.7,
        times=peers.FUTURE,
    ),
    Target("hold: bytes", "hold", "what=turns count=100000", "bytes_per_waiter", 480, 350),
    Target(
        "hold with timeouts of 200 ms, all of which expire",
        "hold",
        "what=loaded count=500000",
        "ns_per_operation",
        5_000,
        3_333,
    ),
    *(
        Target(
            f"longest pause with 1,000,000 pending, {what}",
            "pauses",
            f"what={what} pending=1000000",
            "longest_ms",
            5,
            1,
        )
        for what in ("collection", "metrics", "expire", "purge", "holds", "close")
    ),
]

# asyncio's waiters and loops
TARGETS += [
    *(
        Target(
            f"asyncio: hold and {what}, rate, times wait_for's",
            "aio_hold",
            f"what={what} count=100000",
            "per_second",
            5,
            None,
            higher_is_better=True,
            times=peers.WAIT_FOR,
        )
        for what in ("complete", "expire", "cancel")
    ),
    Target(
        "asyncio: bytes per waiter, times wait_for's",
        "aio_hold",
        "what=complete count=100000",
        "bytes_per_waiter",
        1 / 3,
        None,
        times=peers.WAIT_FOR,
    ),
    Target(
        "asyncio: echo with a timeout per request, rate, times the standard loop's",
        "aio_echo",
        "clients=50",
        "per_second",
        1,
        None,
        higher_is_better=True,
        times=peers.ASYNCIO,
    ),
]


# The pipeline on Spark
TARGETS += [
    *(
        Target(
            f"stream: rows a second, times those of the {what}",
            "stream",
            f"{case} pending=1000 keys=0 {per_file}",
            "warm_rows_per_second",
            times,
            None,
            higher_is_better=True,
            times=side,
        )
        for what, side, times, case, per_file in (
            ("stream-stream join", peers.STREAM_JOIN, 4, "requests=4800000", "per_file=400000"),
            ("timer per request", peers.STREAM_TIMERS, 2, "requests=240000", "per_file=40000"),
        )
    ),
    *(
        Target(
            f"batch outcomes, {what}: rows a second",
            "batch",
            "requests=10000000 keys=0 watched=1",
            metric,
            least,
            None,
            higher_is_better=True,
        )
        for what, metric, least in (
            ("warm", "rows_per_second", 2_000_000),
            ("cold", "cold_rows_per_second", 1_000_000),
        )
    ),
    Target(
        "replay through the purgatory: requests a second",
        "replay",
        "source=made requests=3840000",
        "requests_per_second",
        500_000,
        None,
        higher_is_better=True,
    ),
]

# The light broker
TARGETS += [
    Target(
        "broker: first cluster of a process, CPU",
        "broker_fixture",
        "nodes=1",
        "first_cpu_ms",
        250,
        150,
    ),
    Target(
        "broker: each further cluster, CPU", "broker_fixture", "nodes=1", "further_cpu_ms", 10, 5
    ),
    *(
        Target(
            f"broker: acks=all, {nodes} node{'s' * (nodes > 1)}, requests a second, times Kafka's",
            "broker_produce",
            f"nodes={nodes} connections=20 bytes=100 ms=4000",
            "per_second",
            least,
            None,
            higher_is_better=True,
            times=peers.KAFKA_BROKER,
        )
        for nodes, least in ((1, 0.9), (3, 2))
    ),
    Target(
        "broker: 10,000 parked fetches answered",
        "broker_parked",
        "fetches=10000",
        "last_answer_ms",
        100,
        None,
    ),
    Target("broker: 2,000 idle consumers", "broker_idle", "consumers=2000", "idle_cpu", 15, 10),
]


def compare(found: Medians, targets: list[Target] | None = None) -> list[dict[str, object]]:
    """Return a row for each target.

    A row has the measured value (None if there is none), the verdict, and the best peer with its
    value.
    """
    rows: list[dict[str, object]] = []
    for row in TARGETS if targets is None else targets:
        measured = found.get((row.question, peers.OURS, row.case, row.metric))
        target = row.target
        best = _best_peer(found, row)
        if row.at_least_as is not None:
            target = found.get((row.question, row.at_least_as, row.case, row.metric))
        if row.times is not None:
            divisor = found.get((row.question, row.times, row.case, row.metric))
            measured = measured / divisor if measured is not None and divisor else None
            best = None
        rows.append(
            {
                "name": row.name,
                "question": row.question,
                "case": row.case,
                "metric": "ratio" if row.times else row.metric,
                "target": target,
                "moonshot": row.moonshot,
                "measured": measured,
                "verdict": _verdict(row, measured, target),
                "best_peer": best[0] if best else None,
                "best_peer_value": best[1] if best else None,
            }
        )
    return rows


def _verdict(row: Target, measured: float | None, target: float | None) -> str:
    if row.times is not None and row.moonshot is None and row.target is None:
        return NOT_MEASURED if measured is None else PUBLISHED
    return row.verdict(measured, target)


def _best_peer(found: Medians, target: Target) -> tuple[str, float] | None:
    ours = (peers.OURS, peers.OURS_MANUAL, peers.LEGACY, peers.NO_PURGATORY)
    others = [
        (side, value)
        for (question, side, case, metric), value in found.items()
        if (question, case, metric) == (target.question, target.case, target.metric)
        and side not in ours
    ]
    best = max if target.higher_is_better else min
    return best(others, key=lambda other: other[1], default=None)


def targets_table(rows: list[dict[str, object]]) -> Table:
    """Return the rows of `compare` as a table for the console."""
    table = Table(title="targets", title_justify="left")
    for column in _COLUMNS:
        table.add_column(
            column, justify="right" if column in ("target", "moonshot", "measured") else "left"
        )
    for row in rows:
        table.add_row(*_texts(row))
    return table


def _texts(row: dict[str, object]) -> list[str]:
    peer = f"{row['best_peer']} {_number(row['best_peer_value'])}" if row["best_peer"] else "-"
    figures = [_number(row[column]) for column in ("target", "moonshot", "measured")]
    return [str(row["name"]), str(row["metric"]), *figures, str(row["verdict"]), peer]


def _number(value: object) -> str:
    return number(value) if isinstance(value, int | float) else "-"
