"""The record of a measurement, and how measurements are made: each in a fresh process."""

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

#: Beside this package; its parent has to be importable in workers, wherever they are started.
_ROOT = Path(__file__).resolve().parent.parent
#: A process that takes longer has failed.
TIMEOUT_S = 600.0
#: So much of a failed process's stderr is reported.
_REASON_LINES = 6


@dataclass(frozen=True)
class Measurement:
    """One value, as one line of measurements.jsonl.

    Attributes:
        case: such as `pending=1000`.
        size: the same as a number, for an axis.
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
        """One line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class NotMeasured:
    """A case that a side has no value for, and why.

    Attributes:
        failed: True if it should have had one.
    """

    question: str
    side: str
    case: str
    reason: str
    failed: bool

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Step:
    """One process to run."""

    question: Question
    side: str
    case: Case
    round: int


class JvmPeers(Protocol):
    """What `benchmarks.jvm.build.build` gives."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Of what is measured and what it runs on."""

    def command(self, question: str, side: str, params: Mapping[str, object]) -> list[str]:
        """The process that answers a question."""


class Runner:
    """Runs one step at a time, and remembers what can't be measured, which is then not tried again."""

    def __init__(self, jvm: JvmPeers | str, timeout_s: float = TIMEOUT_S) -> None:
        """`jvm`: the JVM peers as built, or why there are none."""
        self.not_measured: list[NotMeasured] = []
        self._jvm = jvm
        self._timeout_s = timeout_s
        self._given_up: set[tuple[str, str, str]] = set()

    def plan(
        self, questions: list[Question], *, sides: set[str], rounds: int, quick: bool
    ) -> list[Step]:
        """The processes to run, in order; what is left out is remembered.

        All sides of a case follow one another, so that what disturbs the machine for a while
        disturbs all of them; every other round has them in reverse, so that none is always first.
        """
        steps = []
        for question in questions:
            chosen = [side for side in question.SIDES if side in sides]
            cases = question.cases(quick)
            wanted = [
                [side for side in chosen if self._is_wanted(question, side, case)] for case in cases
            ]
            for number in range(rounds):
                for case, sides_of_case in zip(cases, wanted, strict=True):
                    if case.most_rounds is not None and number >= case.most_rounds:
                        continue
                    in_order = sides_of_case if number % 2 == 0 else sides_of_case[::-1]
                    steps += [Step(question, side, case, number) for side in in_order]
        return steps

    def run(self, step: Step) -> Iterator[Measurement]:
        """The values of one process.

        None if it could not be measured, now or in an earlier round.
        """
        name, side, case = step.question.QUESTION, step.side, step.case
        if (name, side, case.label) in self._given_up:
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
            self._give_up(
                step.question, side, case, f"took longer than {self._timeout_s:.0f} s", failed=True
            )
            return
        except OSError as error:
            self._give_up(step.question, side, case, f"could not be started: {error}", failed=True)
            return
        if result.returncode != 0:
            not_applicable = result.returncode == EXIT_NOT_APPLICABLE
            told = (
                _last_lines(result.stderr)
                or f"exit code {result.returncode}, and nothing on stderr"
            )
            self._give_up(step.question, side, case, told, failed=not not_applicable)
            return
        try:
            values = metric_values(result.stdout, step.question.METRICS)
        except ValueError as error:
            self._give_up(step.question, side, case, str(error), failed=True)
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

    def _is_wanted(self, question: Question, side: str, case: Case) -> bool:
        reason = (
            self._jvm
            if side in peers.JVM and isinstance(self._jvm, str)
            else peers.unavailable(side)
        )
        reason = reason or question.left_out(side, case)
        if reason:
            self._give_up(question, side, case, reason, failed=False)
        return reason is None

    def _give_up(
        self, question: Question, side: str, case: Case, reason: str, *, failed: bool
    ) -> None:
        self._given_up.add((question.QUESTION, side, case.label))
        self.not_measured.append(NotMeasured(question.QUESTION, side, case.label, reason, failed))

    def _command(self, step: Step) -> list[str]:
        case = step.case
        if step.side in peers.JVM and not isinstance(self._jvm, str):
            if case.jvm is None:
                return self._jvm.command(step.question.QUESTION, step.side, dict(case.params))
            return self._jvm.command(case.jvm.question, step.side, dict(case.jvm.params))
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
    """The metrics in the last line of a process's output; ValueError unless it has the first one, and only finite numbers.

    Metrics that the question does not know are dropped: a harness may tell more.
    """
    last = output.strip().rpartition("\n")[2]
    first = next(iter(metrics))
    try:
        told = json.loads(last)
        told[first]
    except (json.JSONDecodeError, TypeError, KeyError):
        raise ValueError(f"printed no JSON object with {first}: {last[-200:]!r}") from None
    values = {metric: told[metric] for metric in metrics if metric in told}
    for metric, value in values.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not abs(value) < float("inf")
        ):
            raise ValueError(f"{metric} is no finite number: {value!r}")
    return {metric: float(value) for metric, value in values.items()}


def _environment() -> dict[str, str]:
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_REASON_LINES:])
