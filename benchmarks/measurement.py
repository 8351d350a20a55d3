"""Measurements, and the runner that makes each one in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from benchmarks import peers
from benchmarks.question import Case, Question
from benchmarks.worker import EXIT_NOT_APPLICABLE

#: The parent of this package, which workers must be able to import from any directory.
_ROOT = Path(__file__).resolve().parent.parent
#: Seconds after which a process has failed.
TIMEOUT_S = 600.0
#: The number of lines of a failed process's stderr that are reported.
_REASON_LINES = 6


@dataclass(frozen=True)
class Measurement:
    """One value: a line of measurements.jsonl.

    Attributes:
        case: The case's label, such as `pending=1000`.
        size: The case's value on a numeric axis.
        unit: ns, ms, bytes or 1/s.
        round: 0, 1, ...
    """

    question: str
    side: str
    case: str
    size: float
    metric: str
    unit: str
    round: int
    value: float

    def to_json(self) -> str:
        """Return the value as a line of JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class NotMeasured:
    """A case that has no value for a side.

    Attributes:
        reason: Why there is no value.
        failed: Whether the measurement failed; False if it was skipped.
    """

    question: str
    side: str
    case: str
    reason: str
    failed: bool

    def to_json(self) -> str:
        """Return the object as a line of JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Step:
    """One process to run."""

    question: Question
    side: str
    case: Case
    round: int


class JvmPeers(Protocol):
    """The result of `benchmarks.jvm.build.build`."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of the peers and of Java, by name."""

    def command(self, question: str, side: str, params: Mapping[str, object]) -> list[str]:
        """Return the command that measures a question."""


class Runner:
    """Runs one step at a time, and does not retry a case that has failed or was skipped."""

    def __init__(self, jvm: JvmPeers | str, timeout_s: float = TIMEOUT_S) -> None:
        """Create a runner.

        Args:
            jvm: The built JVM peers, or the reason why they are unavailable.
            timeout_s: Seconds after which a process has failed.
        """
        self.not_measured: list[NotMeasured] = []
        self._jvm = jvm
        self._timeout_s = timeout_s
        self._without_value: set[tuple[str, str, str]] = set()

    def plan(
        self, questions: list[Question], *, sides: set[str], rounds: int, quick: bool
    ) -> list[Step]:
        """Return the steps in the order to run them; cases to skip are recorded.

        All sides of a case follow one another, so that a temporary disturbance of the machine
        affects all of them. Every other round reverses their order, so that no side is always
        first.
        """
        steps = []
        for question in questions:
            chosen = [side for side in question.SIDES if side in sides]
            cases = question.cases(quick)
            wanted = [
                [side for side in chosen if self._is_measurable(question, side, case)]
                for case in cases
            ]
            for number in range(rounds):
                for case, sides_of_case in zip(cases, wanted, strict=True):
                    if case.max_rounds is not None and number >= case.max_rounds:
                        continue
                    in_order = sides_of_case if number % 2 == 0 else sides_of_case[::-1]
                    steps += [Step(question, side, case, number) for side in in_order]
        return steps

    def run(self, step: Step) -> Iterator[Measurement]:
        """Run one process.

        Yields:
            Its values; none if the measurement failed, now or in an earlier round.
        """
        name, side, case = step.question.QUESTION, step.side, step.case
        if (name, side, case.label) in self._without_value:
            return
        try:
            result = subprocess.run(
                self._command(step),
                capture_output=True,
                text=True,
                timeout=self._timeout_s,
                env=_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._record_not_measured(
                step.question, side, case, f"took longer than {self._timeout_s:.0f} s", failed=True
            )
            return
        except OSError as error:
            self._record_not_measured(
                step.question, side, case, f"could not be started: {error}", failed=True
            )
            return
        if result.returncode != 0:
            not_applicable = result.returncode == EXIT_NOT_APPLICABLE
            reason = (
                _last_lines(result.stderr)
                or f"exit code {result.returncode}, and nothing on stderr"
            )
            self._record_not_measured(step.question, side, case, reason, failed=not not_applicable)
            return
        try:
            values = metric_values(result.stdout, step.question.METRICS)
        except ValueError as error:
            self._record_not_measured(step.question, side, case, str(error), failed=True)
            return
        for metric, value in values.items():
            yield Measurement(
                name,
                side,
                case.label,
                case.size,
                metric,
                step.question.METRICS[metric],
                step.round,
                value,
            )

    def _is_measurable(self, question: Question, side: str, case: Case) -> bool:
        """Return False, and record the reason, if a side is unavailable or skips a case."""
        reason = (
            self._jvm
            if side in peers.JVM and isinstance(self._jvm, str)
            else peers.unavailable_reason(side)
        )
        reason = reason or question.skip_reason(side, case)
        if reason:
            self._record_not_measured(question, side, case, reason, failed=False)
        return reason is None

    def _record_not_measured(
        self, question: Question, side: str, case: Case, reason: str, *, failed: bool
    ) -> None:
        """Record the reason why a case has no value, so that it is not tried again."""
        self._without_value.add((question.QUESTION, side, case.label))
        self.not_measured.append(NotMeasured(question.QUESTION, side, case.label, reason, failed))

    def _command(self, step: Step) -> list[str]:
        case = step.case
        if step.side in peers.JVM and not isinstance(self._jvm, str):
            question, params = step.question.QUESTION, case.params
            if case.jvm is not None:
                question, params = case.jvm.question, case.jvm.params
            side, further = peers.JVM_VARIANTS.get(step.side, (step.side, {}))
            return self._jvm.command(question, side, {**params, **further})
        arguments = [f"{name}={value}" for name, value in case.params.items()]
        return [
            sys.executable,
            "-m",
            "benchmarks.worker",
            step.question.QUESTION,
            step.side,
            *arguments,
        ]


def metric_values(output: str, metrics: Mapping[str, str]) -> dict[str, float]:
    """Return the metrics in the last line of a process's output.

    Args:
        output: The process's standard output.
        metrics: The unit of each metric of the question; other metrics in the output are ignored.

    Returns:
        A value for each metric in the output.

    Raises:
        ValueError: The first metric is missing, or a value is not a finite number.
    """
    last = output.strip().rpartition("\n")[2]
    first = next(iter(metrics))
    try:
        found = json.loads(last)
        found[first]
    except (json.JSONDecodeError, TypeError, KeyError):
        raise ValueError(f"expected a JSON object with {first}, got {last[-200:]!r}") from None
    values = {metric: found[metric] for metric in metrics if metric in found}
    for metric, value in values.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not abs(value) < float("inf")
        ):
            raise ValueError(f"{metric} must be a finite number, got {value!r}")
    return {metric: float(value) for metric, value in values.items()}


def _environment() -> dict[str, str]:
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_REASON_LINES:])
