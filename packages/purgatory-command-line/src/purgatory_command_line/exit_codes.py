"""Exit codes: the same for every command."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the command's exit code means; docs/reference/command.md has the same table."""

    #: The command did what it was asked to do.
    OK = 0
    #: Spark, the broker, a file system or this package failed; running the command again may help.
    FAILED = 1
    #: An option, a path or a file's content can't be used. Nothing was written, except for the
    #: rejects of an import that has no other rows.
    BAD_INPUT = 2
    #: A replay and the batch outcomes differ; the analysis was written.
    OUTCOMES_DIFFER = 3
    #: A Python package, Java or Spark's Kafka connector is missing.
    MISSING_DEPENDENCY = 4
    #: Stopped by SIGINT (Ctrl-C), as a shell reports it: 128 + 2.
    INTERRUPTED = 130
    #: Stopped by SIGTERM, as a shell reports it: 128 + 15.
    TERMINATED = 143
