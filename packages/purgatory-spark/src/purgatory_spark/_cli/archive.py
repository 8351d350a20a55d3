"""The command `purgatory archive`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from purgatory_command_line.command import command
from purgatory_command_line.converters import LocalPath
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._cli.options import Force
from purgatory_spark._spark.archive import make_archive, submit_instructions


@command(describe_failure)
def archive(
    out: LocalPath,
    /,
    *,
    source: Annotated[str | None, Parameter(metavar="REQUIREMENT")] = None,
    force: Force = False,
    output: OutputOptions,
) -> ExitCode:
    """Pack the Python environment that the machines of a Spark cluster need.

    Args:
        out: The .tar.gz file to make, for `spark-submit --archives`.
        source: A wheel, a checkout or a requirement of pip; what this installation was made from
            unless given.
        force: See `Force`.
        output: See `Output`.
    """
    with output.console.status("make the environment, and pack it"):
        packed = make_archive(out, source=source, replace=force)
    output.print_result({"path": str(out), "python": str(packed.python), "size_bytes": packed.size})
    output.console.print(
        f"made [bold]{escape(str(out))}[/], {packed.size / 2**20:,.0f} MB", soft_wrap=True
    )
    output.console.print(submit_instructions(packed), soft_wrap=True, markup=False)
    return ExitCode.OK
