"""The data pipeline on Spark: traces, replays, batch outcomes, streams, simulations and reports.

Needs the optional dependencies `request-purgatory[spark]`. Streams are in `pipeline.stream`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from request_purgatory.pipeline.analysis.analysis import Analysis, analyze
    from request_purgatory.pipeline.analysis.report import write_report
    from request_purgatory.pipeline.analysis.what_if import suggest_timeouts, what_if
    from request_purgatory.pipeline.notebook.replay_result import Replay
    from request_purgatory.pipeline.notebook.report_result import Report
    from request_purgatory.pipeline.notebook.table_fields import TableFields
    from request_purgatory.pipeline.notebook.trace import Trace
    from request_purgatory.pipeline.notebook.what_if_result import WhatIf
    from request_purgatory.pipeline.outcomes.batch import (
        batch_outcomes,
        satisfactions,
        trace_outcomes,
        trace_satisfactions,
    )
    from request_purgatory.pipeline.outcomes.replay import ReplaySettings, replay
    from request_purgatory.pipeline.outcomes.results import outcomes_of, rejects_of
    from request_purgatory.pipeline.simulation.cluster_simulation import SimulationPlan, simulate
    from request_purgatory.pipeline.spark.host_sizes import (
        HostTooLargeError,
        parts_of_hosts,
        require_hosts_fit,
    )
    from request_purgatory.pipeline.spark.session import (
        SessionSettingError,
        apply_stream_settings,
        create_session,
        local_checkpoint_settings,
    )
    from request_purgatory.pipeline.traces.importers.columns import map_tables
    from request_purgatory.pipeline.traces.importers.imported_trace import (
        ImportedTrace,
        TraceFormatError,
    )
    from request_purgatory.pipeline.traces.importers.mapping import TableMapping
    from request_purgatory.pipeline.traces.marks import Mark
    from request_purgatory.pipeline.traces.schema import SchemaError
    from request_purgatory.pipeline.traces.trace_folder import TraceFolder
    from request_purgatory.pipeline.traces.trace_reader import ImportSettings, read_trace
    from request_purgatory.pipeline.traces.workload import Workload
    from request_purgatory.pipeline.traces.workload_blocks import workload_trace

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
    "apply_stream_settings",
    "batch_outcomes",
    "create_session",
    "local_checkpoint_settings",
    "map_tables",
    "outcomes_of",
    "parts_of_hosts",
    "read_trace",
    "rejects_of",
    "replay",
    "require_hosts_fit",
    "satisfactions",
    "simulate",
    "suggest_timeouts",
    "trace_outcomes",
    "trace_satisfactions",
    "what_if",
    "workload_trace",
    "write_report",
]

#: Where the public names are. Spark's Python workers import modules of this package, and need
#: neither charts nor reports, so nothing is imported before it is used.
_MODULES = {
    "analysis.analysis": ("Analysis", "analyze"),
    "analysis.report": ("write_report",),
    "analysis.what_if": ("suggest_timeouts", "what_if"),
    "notebook.replay_result": ("Replay",),
    "notebook.report_result": ("Report",),
    "notebook.table_fields": ("TableFields",),
    "notebook.trace": ("Trace",),
    "notebook.what_if_result": ("WhatIf",),
    "outcomes.batch": ("batch_outcomes", "satisfactions", "trace_outcomes", "trace_satisfactions"),
    "outcomes.replay": ("ReplaySettings", "replay"),
    "outcomes.results": ("outcomes_of", "rejects_of"),
    "simulation.cluster_simulation": ("SimulationPlan", "simulate"),
    "spark.host_sizes": ("HostTooLargeError", "parts_of_hosts", "require_hosts_fit"),
    "spark.session": (
        "SessionSettingError",
        "apply_stream_settings",
        "create_session",
        "local_checkpoint_settings",
    ),
    "traces.importers.columns": ("map_tables",),
    "traces.importers.imported_trace": ("ImportedTrace", "TraceFormatError"),
    "traces.importers.mapping": ("TableMapping",),
    "traces.marks": ("Mark",),
    "traces.schema": ("SchemaError",),
    "traces.trace_folder": ("TraceFolder",),
    "traces.trace_reader": ("ImportSettings", "read_trace"),
    "traces.workload": ("Workload",),
    "traces.workload_blocks": ("workload_trace",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        try:
            module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
        except ModuleNotFoundError as error:
            from request_purgatory.extras import missing_package

            raise missing_package(error, "spark") from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
