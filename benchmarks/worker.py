"""One measurement in this process: `python -m benchmarks.worker <question> <side> [key=value ...]`.

Prints one JSON object {metric: value}. Exit code 3 with a reason on stderr: the side has nothing to
measure here.
"""

from __future__ import annotations

import json
import os
import sys

from benchmarks import question
from benchmarks.question import NotApplicableError, Parameter

EXIT_BAD_ARGUMENT = 2
EXIT_NOT_APPLICABLE = 3


def parameter(argument: str) -> tuple[str, Parameter]:
    """The name and value of `key=value`; whole numbers become ints.

    ValueError if it is not of that form.
    """
    name, equals, value = argument.partition("=")
    if not name or not equals:
        raise ValueError(f"{argument!r} is not of the form key=value")
    try:
        return name, int(value)
    except ValueError:
        return name, value


def main(arguments: list[str]) -> int:
    """Measure, print, and give the exit code."""
    if len(arguments) < 2 or arguments[0] not in question.NAMES:
        usage = "usage: python -m benchmarks.worker <question> <side> [key=value ...]; a question is one of"
        print(usage, ", ".join(question.NAMES), file=sys.stderr)
        return EXIT_BAD_ARGUMENT
    asked = question.load(arguments[0])
    side = arguments[1]
    if side not in asked.SIDES:
        print(f"side {side!r} is none of {asked.SIDES}", file=sys.stderr)
        return EXIT_BAD_ARGUMENT
    question.prepare_process(asked)
    try:
        metrics = asked.measure(side, **dict(map(parameter, arguments[2:])))
    except NotApplicableError as reason:
        print(reason, file=sys.stderr)
        return EXIT_NOT_APPLICABLE
    print(json.dumps(metrics), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == 0:
        # Not the usual way out: freeing a million timers, or joining threads that wait for one, is
        # no part of the answer.
        os._exit(0)
    sys.exit(code)
