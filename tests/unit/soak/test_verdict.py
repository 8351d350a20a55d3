"""How an operation's end is judged, and the memory."""

from __future__ import annotations

import pytest

from benchmarks.soak.choices import Choices, Keys
from benchmarks.soak.probe import history
from benchmarks.soak.rss import Sample, growth
from benchmarks.soak.verdict import judge


@pytest.mark.parametrize(
    ("outcome", "calls"),
    [
        ("completed", 0o1),
        ("expired", 0o12),
        ("cancelled", 0o3),
        ("completed", 0o15),
        ("expired", 0o152),
        ("completed", 0o51),
    ],
)
def test_demanded_callbacks_are_right(outcome: str, calls: int) -> None:
    """Each outcome has its callbacks, whether or not one of them raised."""
    assert judge(outcome, calls) is None


@pytest.mark.parametrize(
    ("outcome", "calls"),
    [
        (None, 0o0),
        ("completed", 0o0),
        ("completed", 0o11),
        ("completed", 0o13),
        ("expired", 0o1),
        ("expired", 0o21),
        ("expired", 0o124),
        ("expired", 0o127),
        ("cancelled", 0o0),
        ("cancelled", 0o33),
    ],
)
def test_other_callbacks_are_wrong(outcome: str | None, calls: int) -> None:
    """Too few, too many, in another order, too early, too late."""
    assert judge(outcome, calls) is not None
    assert history(calls)


def test_refused_operation_is_cancelled_without_a_callback() -> None:
    """The caller was told by the exception."""
    assert judge("cancelled", 0, refused=True) is None
    assert judge("completed", 0, refused=True) is not None


def test_interrupted_callback_is_excused_once() -> None:
    """A signal handler raised before the callback's note; a second call is not excused."""
    assert judge("completed", 0o6) is None
    assert judge("expired", 0o62) is None
    assert judge("completed", 0o611) is not None


def samples(rss_kb: list[int]) -> list[Sample]:
    """A sample a second."""
    return [Sample(float(second), second * 1000, kb, 100_000) for second, kb in enumerate(rss_kb)]


def test_one_peak_is_no_growth() -> None:
    """Nor is what the warm-up takes."""
    assert growth(samples([10_000] * 10 + [100_000] * 40 + [900_000] + [100_000] * 9)) is None


def test_slow_growth_is_found() -> None:
    """A leak of two megabytes a sample."""
    assert "grew" in str(growth(samples([100_000 + 2000 * second for second in range(60)])))


def test_short_run_is_not_judged() -> None:
    """A few samples say nothing."""
    assert growth(samples([1, 10**6, 10**7])) is None


def test_choices_are_the_seeds() -> None:
    """The same seed and name draw the same."""
    keys = Keys()
    drawn = [
        [next(draws)[1:] for _ in range(50)]
        for draws in (
            Choices(seed, name).watches(keys)
            for seed, name in ((1, "a"), (1, "a"), (2, "a"), (1, "b"))
        )
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    assert drawn[0] != drawn[3]
