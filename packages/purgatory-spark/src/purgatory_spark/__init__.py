"""The data pipeline on Spark: traces, replays, batch outcomes, streams, simulations and reports.

Streams are in `purgatory_spark.stream`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purgatory_spark._analysis.analysis import analyze
    from purgatory_spark._analysis.analysis_folder import Analysis
    from purgatory_spark._analysis.report import write_report
    from purgatory_spark._errors import SchemaError, TraceFormatError
    from purgatory_spark._importers.columns import map_tables
    from purgatory_spark._importers.imported_trace import ImportedTrace
    from purgatory_spark._notebook.replay_result import Replay
    from purgatory_spark._notebook.report_result import Report
    from purgatory_spark._notebook.table_fields import TableFields
    from purgatory_spark._notebook.trace import Trace
    from purgatory_spark._notebook.what_if_result import WhatIf
    from purgatory_spark._outcomes.batch import batch_outcomes, trace_outcomes
    from purgatory_spark._outcomes.replay import ReplaySettings, replay
    from purgatory_spark._outcomes.results import outcomes_of, rejects_of
    from purgatory_spark._rows.host_sizes import HostTooLargeError
    from purgatory_spark._rows.mapping import TableMapping
    from purgatory_spark._simulation.cluster_simulation import SimulationPlan, simulate
    from purgatory_spark._spark.session import SessionSettingError, create_session
    from purgatory_spark._spark.shipping import ship_package
    from purgatory_spark._traces.marks import Mark
    from purgatory_spark._traces.trace_folder import TraceFolder
    from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
    from purgatory_spark._traces.workload import Workload
    from purgatory_spark._traces.workload_blocks import workload_trace

__all__ = [
    "Analysis",
    "HostTooLargeError",
    "ImportSettings",
    "ImportedTrace",
    "Mark",
    "Replay",
    "ReplaySettings",
    "Report",
    "SchemaError",
    "SessionSettingError",
    "SimulationPlan",
    "TableFields",
    "TableMapping",
    "Trace",
    "TraceFolder",
    "TraceFormatError",
    "WhatIf",
    "Workload",
    "analyze",
    "batch_outcomes",
    "create_session",
    "map_tables",
    "outcomes_of",
    "read_trace",
    "rejects_of",
    "replay",
    "ship_package",
    "simulate",
    "trace_outcomes",
    "workload_trace",
    "write_report",
]

#: The module of each name. It is imported when the name is first used: what needs no Spark does not
#: import it.
_MODULES = {
    "Analysis": "_analysis.analysis_folder",
    "HostTooLargeError": "_rows.host_sizes",
    "ImportSettings": "_traces.trace_reader",
    "ImportedTrace": "_importers.imported_trace",
    "Mark": "_traces.marks",
    "Replay": "_notebook.replay_result",
    "ReplaySettings": "_outcomes.replay",
    "Report": "_notebook.report_result",
    "SchemaError": "_errors",
    "SessionSettingError": "_spark.session",
    "SimulationPlan": "_simulation.cluster_simulation",
    "TableFields": "_notebook.table_fields",
    "TableMapping": "_rows.mapping",
    "Trace": "_notebook.trace",
    "TraceFolder": "_traces.trace_folder",
    "TraceFormatError": "_errors",
    "WhatIf": "_notebook.what_if_result",
    "Workload": "_traces.workload",
    "analyze": "_analysis.analysis",
    "batch_outcomes": "_outcomes.batch",
    "create_session": "_spark.session",
    "map_tables": "_importers.columns",
    "outcomes_of": "_outcomes.results",
    "read_trace": "_traces.trace_reader",
    "rejects_of": "_outcomes.results",
    "replay": "_outcomes.replay",
    "ship_package": "_spark.shipping",
    "simulate": "_simulation.cluster_simulation",
    "trace_outcomes": "_outcomes.batch",
    "workload_trace": "_traces.workload_blocks",
    "write_report": "_analysis.report",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
