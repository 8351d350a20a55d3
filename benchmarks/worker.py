"""Make one measurement: `python -m benchmarks.worker <question> <side> [key=value ...]`.

The process prints one JSON object {metric: value}. Exit code 3 with a reason on stderr means that
the side has nothing to measure.
"""

from __future__ import annotations

import json
import os
import sys

from benchmarks import question
from benchmarks.question import NotApplicableError, Parameter

EXIT_BAD_ARGUMENT = 2
EXIT_NOT_APPLICABLE = 3


def parse_parameter(argument: str) -> tuple[str, Parameter]:
    """Return the name and value of `key=value`; whole numbers become ints.

    Raises:
        ValueError: The argument does not have that form.
    """
    name, equals, value = argument.partition("=")
    if not name or not equals:
        raise ValueError(f"expected key=value, got {argument!r}")
    try:
        return name, int(value)
    except ValueError:
        return name, value


def main(arguments: list[str]) -> int:
    """Measure and print the values.

    Returns:
        The exit code.
    """
    if len(arguments) < 2 or arguments[0] not in question.NAMES:
        print(
            "usage: python -m benchmarks.worker <question> <side> [key=value ...]; questions:",
            ", ".join(question.NAMES),
            file=sys.stderr,
        )
        return EXIT_BAD_ARGUMENT
    asked = question.load(arguments[0])
    side = arguments[1]
    if side not in asked.SIDES:
        print(f"unknown side {side!r}; known: {', '.join(asked.SIDES)}", file=sys.stderr)
        return EXIT_BAD_ARGUMENT
    question.prepare_process(asked)
    try:
        metrics = asked.measure(side, **dict(map(parse_parameter, arguments[2:])))
    except NotApplicableError as reason:
        print(reason, file=sys.stderr)
        return EXIT_NOT_APPLICABLE
    print(json.dumps(metrics), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == 0:
        # Exit without freeing a million timers or joining threads that wait for one.
        os._exit(0)
    sys.exit(code)
