"""Layouts of the stored state, and how tables of an earlier layout are read.

A segment is written once, so a new version of the code does not rewrite what is stored. It reads
segments of an earlier layout as if they were of its own, and writes only its own. So the segments
of an earlier layout disappear as they are merged, or no longer needed, and a stream resumes without
a migration beforehand, whatever the size of its state. The columns that are passed on from requests
to outcomes have no part in the layout: those that a segment lacks have their defaults, and others
that it has are left out.

| layout | difference to the one before |
|---|---|
| 3 | requests ahead of the watermark: `needed`, a number, in place of `every`, a flag |
|   | pending requests: `left` counts the keys that are needed, not all unsatisfied ones; without |
|   | `every` and `latest_us` |
| 4 | the labels by which Spark knows the shards; rows ahead of the watermark: fields that may be |
|   | null, and lists of `item`, where Spark had fields that may not, and lists of `element` |
| 5 | requests ahead of the watermark: `watch_keys`, `quantifier` and `row`, for those that turn |
|   | out to be repeated |
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows.schema import PASSED

#: The layout of a shard's state: names of blobs, keys of the head and of segments, and columns of
#: tables, but for those of `schema.PASSED`. A change gets the next number, and a function in
#: `upgrade`.
STATE_VERSION = 5
#: The earliest layout that can be read; also of heads and segments without a number, which the code
#: of this layout wrote. (Some code of layout 3 did so, too. Their columns tell them apart.)
OLDEST_VERSION = 2


class StateLayoutError(ValueError):
    """The state has a layout that this version can't read."""


def require_readable(layout: int) -> None:
    if not OLDEST_VERSION <= layout <= STATE_VERSION:
        raise StateLayoutError(
            f"the stored state has layout {layout}, and this version reads {OLDEST_VERSION} to "
            f"{STATE_VERSION}: use the version that wrote it, or a new checkpoint and a new output"
        )


def upgrade(table: pa.Table, layout: int) -> pa.Table:
    if layout < 3:
        table = _from_layout_2(table)
    if layout < 4:
        table = _without_spark_fields(table)
    return _with_passed(_with_original(table) if layout < 5 else table)


def _with_passed(table: pa.Table) -> pa.Table:
    """Return a table with the columns that are passed on today, whichever it was stored with."""
    names = table.schema.names
    if "request_id" not in names:
        return table
    # They are between the id and the time in every table of requests.
    first, end = names.index("request_id") + 1, names.index("arrived_us")
    if names[first:end] == [column.name for column in PASSED]:
        return table
    columns = {name: table.column(name) for name in names[:first]}
    for column in PASSED:
        default = pa.scalar(column.default, column.arrow.type)
        is_stored = column.name in names
        columns[column.name] = (
            table.column(column.name) if is_stored else pa.repeat(default, table.num_rows)
        )
    columns |= {name: table.column(name) for name in names[end:]}
    return pa.table(columns)


def _with_original(table: pa.Table) -> pa.Table:
    """Return requests ahead of the watermark with null in the columns of their reports."""
    if "keys" not in table.schema.names:
        return table
    for name, kind in (
        ("watch_keys", pa.list_(pa.string())),
        ("quantifier", pa.string()),
        ("row", pa.string()),
    ):
        table = table.append_column(name, pa.nulls(table.num_rows, kind))
    return table


def _from_layout_2(table: pa.Table) -> pa.Table:
    names = table.schema.names
    if "every" not in names:
        return table
    every = table.column("every")
    one = pa.scalar(1, pa.int32())
    if "keys" in names:
        count = pc.list_value_length(table.column("keys"))
        at = names.index("every")
        return table.set_column(at, "needed", pc.if_else(every, count, one))
    # A pending request without `every` needs one key: with a satisfied one it would have ended.
    left = pc.if_else(every, table.column("left"), one)
    return table.set_column(names.index("left"), "left", left).drop_columns(["every", "latest_us"])


def _without_spark_fields(table: pa.Table) -> pa.Table:
    fields = [
        pa.field(
            field.name,
            pa.list_(field.type.value_type) if pa.types.is_list(field.type) else field.type,
        )
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
