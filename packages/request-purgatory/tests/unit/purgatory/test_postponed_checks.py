"""The checks that were too deep, as the outermost one makes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import pytest

from request_purgatory import NotificationLoopError
from request_purgatory.purgatory import _nested_checks as nested_checks

THREAD = -1
MOST_IN_VAIN = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have checks in vain end early."""
    monkeypatch.setattr(nested_checks, "MOST_IN_VAIN", MOST_IN_VAIN)
    yield
    assert nested_checks.postponed == {}


class Checked:
    """A purgatory of which only the checks count.

    Attributes:
        checks: The keys that were checked.
    """

    def __init__(self, check: Callable[[Hashable], int]) -> None:
        self.check = check
        self.checks: list[Hashable] = []

    def postpone(self, *keys: Hashable) -> None:
        for key in keys:
            nested_checks.postpone(THREAD, self, key)

    def _check(self, key: Hashable, counts_ends: bool) -> int:
        assert counts_ends
        self.checks.append(key)
        return self.check(key)


def test_nothing_postponed_is_nothing_to_do() -> None:
    nested_checks.check_postponed(THREAD)


def test_each_key_is_checked_once_in_order() -> None:
    purgatory = Checked(lambda key: 0)
    purgatory.postpone("a", "b", "a", "c")
    nested_checks.check_postponed(THREAD)
    assert purgatory.checks == ["a", "b", "c"]


def test_checks_that_come_back_in_vain_are_given_up_one_by_one() -> None:
    def check(key: Hashable) -> int:
        purgatory.postpone("a", "b")
        return 0

    purgatory = Checked(check)
    purgatory.postpone("a")
    with pytest.raises(NotificationLoopError, match=r"the check of watch key 'a'.* 5 times"):
        nested_checks.check_postponed(THREAD)
    assert purgatory.checks.count("a") == MOST_IN_VAIN
    assert purgatory.checks.count("b") == MOST_IN_VAIN


def test_check_in_which_something_ends_begins_the_count_again() -> None:
    ends = iter([0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0])

    def check(key: Hashable) -> int:
        ended = next(ends, None)
        if ended is None:
            return 0
        purgatory.postpone("a")
        return ended

    purgatory = Checked(check)
    purgatory.postpone("a")
    nested_checks.check_postponed(THREAD)
    assert len(purgatory.checks) == 12


def test_interrupted_check_is_raised_after_all_others() -> None:
    def check(key: Hashable) -> int:
        if key == "a":
            raise KeyboardInterrupt
        return 0

    purgatory = Checked(check)
    purgatory.postpone("a", "b")
    with pytest.raises(KeyboardInterrupt):
        nested_checks.check_postponed(THREAD)
    assert purgatory.checks == ["a", "b"]
