"""The data pipeline on Spark: traces, replays, batch outcomes, streams, simulations and reports.

Streams are in `purgatory_spark.stream`.
"""

from __future__ import annotations

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
    "simulate",
    "trace_outcomes",
    "workload_trace",
    "write_report",
]
