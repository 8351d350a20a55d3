"""The options of reading a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from purgatory_command_line.settings_options import FieldsOf, Given
from purgatory_spark._cli.options import column_mapping, comma_separated
from purgatory_spark._rows.mapping import KEY_KINDS
from purgatory_spark._rows.times import TIME_UNITS
from purgatory_spark._rows.trace_columns import AGGREGATES
from purgatory_spark._traces.import_settings import FORMATS, ImportSettings
from purgatory_spark._traces.marks import Mark


def _marks(_type: Any, tokens: Sequence[Any]) -> tuple[Mark, ...]:
    return tuple(Mark.parse(token.value) for token in tokens)


#: The names of the options whose settings have others.
IMPORT_OPTIONS = {"columns": "map", "event_columns": "map_events", "marks": "mark"}
_CHANGES = {
    "format": Parameter(choices=FORMATS),
    "columns": Annotated[
        list[str],
        Parameter(name="--map", converter=column_mapping, metavar="FIELD=COLUMN"),
    ],
    "event_columns": Annotated[
        list[str],
        Parameter(name="--map-events", converter=column_mapping, metavar="FIELD=COLUMN"),
    ],
    "events": Parameter(metavar="TABLE"),
    "status": Parameter(metavar="COLUMN"),
    "unanswered": Annotated[str, Parameter(converter=comma_separated, metavar="VALUE,VALUE,...")],
    "log_format": Parameter(metavar="FORMAT"),
    "where": Parameter(metavar="CONDITION"),
    "time_unit": Parameter(choices=tuple(TIME_UNITS)),
    "aggregate": Parameter(choices=AGGREGATES),
    "keys": Parameter(choices=KEY_KINDS),
    "marks": Annotated[
        list[str], Parameter(name="--mark", converter=_marks, metavar="TIME[=LABEL]")
    ],
}
#: The settings of what can be read without Spark.
_LOCAL = (
    "columns",
    "events",
    "event_columns",
    "status",
    "unanswered",
    "log_format",
    "time_unit",
    "timeout_ms",
    "aggregate",
    "threshold",
    "quantifier",
)
#: The options of reading a trace.
ImportOptions = Annotated[ImportSettings, FieldsOf(ImportSettings, "Import", changes=_CHANGES)]
#: The options of reading a table without Spark.
LocalImportOptions = Annotated[
    Given,
    FieldsOf(
        ImportSettings,
        "Import",
        only=_LOCAL,
        changes={name: _CHANGES[name] for name in _LOCAL if name in _CHANGES},
    ),
]
