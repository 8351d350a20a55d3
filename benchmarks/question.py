"""What a question of the benchmark is, and which ones there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

#: A parameter of a case, as it stands on a worker's command line: `pending=1000`.
Parameter = int | str

#: In the order in which they are run and reported; each is a module of this package.
NAMES = (
    "timer_cycle",
    "timer_add",
    "timer_cancel_random",
    "timer_expire",
    "purgatory_cycle",
    "purgatory_expire",
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
    "broker_start",
    "broker_produce",
    "broker_parked",
)


class NotApplicableError(Exception):
    """A side has nothing to measure in a case; the message says why."""


@dataclass(frozen=True)
class JvmCall:
    """What the JVM sides are asked for where their question or its parameters are named differently."""

    question: str
    params: Mapping[str, Parameter]


@dataclass(frozen=True)
class Case:
    """One point of a question.

    Attributes:
        params: arguments of the question's `measure`.
        size: the value on the numeric axis.
        jvm: what to ask the JVM sides; None for the same question and parameters.
        most_rounds: for what takes long and varies little; None for as many as the rest.
    """

    params: Mapping[str, Parameter]
    size: float
    jvm: JvmCall | None = None
    most_rounds: int | None = None

    @property
    def label(self) -> str:
        """The case as a string: `keys=1 watchers=10`."""
        return " ".join(f"{name}={value}" for name, value in self.params.items())


class Question(Protocol):
    """What the module of a question has.

    Attributes:
        QUESTION: its name, which is the module's.
        METRICS: the unit of each metric; the first one is the one that tables show.
        SIDES: who is measured, in the order of a table's columns.
    """

    QUESTION: str
    METRICS: Mapping[str, str]
    SIDES: tuple[str, ...]
    #: `measure(side, **params)` in a fresh process; a value for each metric that applies. What it
    #: starts it ends.
    measure: Callable[..., dict[str, float]]

    def cases(self, quick: bool) -> list[Case]:
        """The points to measure; few and small if `quick`."""

    def left_out(self, side: str, case: Case) -> str | None:
        """Why a side is not run at a case; None if it is."""


def load(name: str) -> Question:
    """The question of that name; KeyError if there is none."""
    if name not in NAMES:
        raise KeyError(name)
    return cast(Question, importlib.import_module(f"benchmarks.{name}"))


def prepare_process(question: Question) -> None:
    """Set what a question needs of a whole process and nothing can take back.

    Only processes of the benchmark call this. `measure` leaves its process as it was, and works
    without it.
    """
    prepare = getattr(question, "prepare_process", None)
    if prepare is not None:
        prepare()


def title(question: Question) -> str:
    """The first line of the question's docstring."""
    return (question.__doc__ or question.QUESTION).splitlines()[0]
