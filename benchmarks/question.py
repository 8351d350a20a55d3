"""The questions of the benchmark and their interface."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

#: The value of a case's parameter; on a worker's command line: `pending=1000`.
Parameter = int | str

#: The questions in the order in which they run; each is a module of this package.
NAMES = (
    "timer_cycle",
    "timer_add",
    "timer_cancel_random",
    "timer_expire",
    "purgatory_cycle",
    "purgatory_expire",
    "hold",
    "pauses",
    "lateness",
    "memory",
    "contention",
    "growth",
    "aio_hold",
    "aio_timers",
    "aio_echo",
    "published",
    "stream",
    "batch",
    "replay",
    "broker_fixture",
    "broker_start",
    "broker_produce",
    "broker_parked",
    "broker_idle",
    "broker_floor",
    "broker_transactions",
)


class NotApplicableError(Exception):
    """A side has nothing to measure in a case; the message is the reason."""


@dataclass(frozen=True)
class JvmCall:
    """The question and parameters for the JVM sides, where they differ from Python's."""

    question: str
    params: Mapping[str, Parameter]


@dataclass(frozen=True)
class Case:
    """One case of a question.

    Attributes:
        params: Arguments of the question's `measure`.
        size: The value on the numeric axis.
        jvm: The call for the JVM sides; None for the same question and parameters.
        max_rounds: A limit for cases that take long and vary little; None for no limit.
    """

    params: Mapping[str, Parameter]
    size: float
    jvm: JvmCall | None = None
    max_rounds: int | None = None

    @property
    def label(self) -> str:
        """The case as a string: `keys=1 watchers=10`."""
        return " ".join(f"{name}={value}" for name, value in self.params.items())


class Question(Protocol):
    """The interface of a question's module.

    Attributes:
        QUESTION: The name of the question and of its module.
        METRICS: The unit of each metric; the first metric must always have a value.
        SIDES: The sides that are measured, in the order of a table's columns.
    """

    QUESTION: str
    METRICS: Mapping[str, str]
    SIDES: tuple[str, ...]
    #: Call `measure(side, **params)` in a fresh process; it returns a value for each metric that
    #: applies, and ends everything that it starts.
    measure: Callable[..., dict[str, float]]

    def cases(self, quick: bool) -> list[Case]:
        """Return the cases to measure; few and small ones if `quick`."""

    def skip_reason(self, side: str, case: Case) -> str | None:
        """Return the reason why a side does not run a case; None if it runs."""


def load(name: str) -> Question:
    """Return a question.

    Raises:
        KeyError: There is no such question.
    """
    if name not in NAMES:
        raise KeyError(name)
    return cast(Question, importlib.import_module(f"benchmarks.{name}"))


def prepare_process(question: Question) -> None:
    """Change the process as a question needs it, where the change cannot be undone.

    Only the benchmark's own processes call this. `measure` leaves its process unchanged and works
    without this call.
    """
    prepare = getattr(question, "prepare_process", None)
    if prepare is not None:
        prepare()


def title(question: Question) -> str:
    """Return the first line of the question's docstring."""
    return (question.__doc__ or question.QUESTION).splitlines()[0]
