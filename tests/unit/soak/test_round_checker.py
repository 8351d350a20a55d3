"""Checks of an operation's end, and of the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.soak.choices import Choices, Keys
from benchmarks.soak.memory_samples import Sample, find_growth
from benchmarks.soak.probe import describe_calls
from benchmarks.soak.round_checker import find_wrong_end


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
def test_expected_callbacks_are_correct(outcome: str, calls: int) -> None:
    """Each outcome has its callbacks, one of which may raise."""
    assert find_wrong_end(outcome, calls) is None


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
    """Callbacks may be missing, too many, in the wrong order, early or late."""
    assert find_wrong_end(outcome, calls) is not None
    assert describe_calls(calls)


def test_refused_operation_is_cancelled_without_a_callback() -> None:
    """A refused operation may be cancelled, but not completed."""
    assert find_wrong_end("cancelled", 0, refused=True) is None
    assert find_wrong_end("completed", 0, refused=True) is not None


def test_interrupted_callback_is_excused_once() -> None:
    """A signal handler may prevent one record of a callback, but not cause a second call."""
    assert find_wrong_end("completed", 0o6) is None
    assert find_wrong_end("expired", 0o62) is None
    assert find_wrong_end("completed", 0o611) is not None


def samples(rss_kb: list[int]) -> list[Sample]:
    """Make samples that are a second apart."""
    return [Sample(float(second), second * 1000, kb, 100_000) for second, kb in enumerate(rss_kb)]


def test_single_peak_is_not_growth() -> None:
    """The warm-up is not growth either."""
    assert find_growth(samples([10_000] * 10 + [100_000] * 40 + [900_000] + [100_000] * 9)) is None


def test_slow_growth_is_found() -> None:
    """The memory grows by two megabytes in each sample."""
    assert "grew" in str(find_growth(samples([100_000 + 2000 * second for second in range(60)])))


def test_short_run_is_not_checked() -> None:
    """A few samples are too few to find growth."""
    assert find_growth(samples([1, 10**6, 10**7])) is None


def test_growth_of_pages_that_are_kept_is_none_but_that_of_blocks_is() -> None:
    grown = [100_000 + 2000 * second for second in range(60)]
    assert find_growth(samples(grown), keeps_pages=True) is None
    more_blocks = [replace(sample, blocks=sample.rss_kb) for sample in samples(grown)]
    assert "blocks" in str(find_growth(more_blocks, keeps_pages=True))


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
