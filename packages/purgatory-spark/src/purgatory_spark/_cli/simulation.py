"""The command `purgatory simulate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from purgatory_command_line.command import command
from purgatory_command_line.converters import LocalPath
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions
from purgatory_command_line.settings_options import FieldsOf, Given
from purgatory_spark._cli import session
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._cli.options import Count, Force, print_made
from purgatory_spark._cli.traces import Case, PurgatoryOptions
from purgatory_spark._output_folder import output_folder
from purgatory_spark._simulation.cluster_simulation import SimulationPlan, run_simulation
from purgatory_spark._simulation.extrapolation import TargetLoad
from purgatory_spark._simulation.printing import print_simulation
from purgatory_spark._spark.job_progress import step
from purgatory_spark._traces.workload import CASES, Workload, cluster_workload


def _by_case(field: str) -> Callable[[object], str]:
    """Return how the default of a field that the case decides is shown."""
    text = ", ".join(f"{name}: {getattr(case, field):g}" for name, case in CASES.items())
    return lambda _default: text


@command(describe_failure)
def simulate(
    *,
    out: LocalPath,
    case: Case = "low",
    hosts: Annotated[Count, Parameter(group="Workload")] = 1000,
    requests_per_host: Annotated[Count, Parameter(group="Workload")] = 100_000,
    rate_per_host: Annotated[float, Parameter(group="Workload", metavar="PER_SECOND")] = 2500.0,
    workload: Annotated[
        Given,
        FieldsOf(
            Workload,
            "Workload",
            only=("keys", "shared_keys", "timeout_ms", "median_ms", "p75_ms", "seed"),
            changes={
                "median_ms": Parameter(show_default=_by_case("median_ms")),
                "p75_ms": Parameter(show_default=_by_case("p75_ms")),
            },
        ),
    ],
    settings: PurgatoryOptions,
    target: Annotated[
        TargetLoad,
        FieldsOf(
            TargetLoad, "Extrapolation", changes={"per_day": Parameter(name="--target-per-day")}
        ),
    ],
    plan: Annotated[Given, FieldsOf(SimulationPlan, only=("partitions", "max_worker_mb"))],
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Simulate a cluster larger than the machine, and extrapolate to a target load.

    Args:
        out: The folder to make.
        case: The service times: `low` or `high`, for a low or high share of timeouts.
        hosts: The number of hosts, each a process with a purgatory.
        requests_per_host: The number of requests of each host.
        rate_per_host: The arrivals per second at each host.
        workload: What differs from the published workload.
        settings: The purgatory of each host.
        target: The load to extrapolate to.
        plan: Spark's tasks and their memory.
        force: See `Force`.
        output: See `Output`.
    """
    simulation = SimulationPlan(
        workload=cluster_workload(
            CASES[case],
            hosts=hosts,
            requests_per_host=requests_per_host,
            rate_per_host=rate_per_host,
            **workload,
        ),
        settings=settings,
        target=target,
        **plan,
    )
    name, requests = simulation.workload.name, simulation.workload.requests
    label = f"simulate {hosts:,} hosts, {name}: {requests:,} requests"
    with output_folder(out, replace=force) as folder:
        sizes = simulation.measure()
        with session.open_session() as spark:
            with step(output.console, spark, label):
                summary = run_simulation(spark, simulation, sizes, folder)
            print_simulation(output.console, summary)
    print_made(output, out, result=summary)
    return ExitCode.OK
