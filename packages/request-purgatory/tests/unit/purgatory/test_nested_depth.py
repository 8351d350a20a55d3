"""How deep checks go inside of checks, and when the postponed ones are made."""

from __future__ import annotations

from request_purgatory import DelayedOperationPurgatory
from tests.support.requests import Request

#: As `DelayedOperationPurgatory.check_and_complete` promises.
DEEPEST = 20


def test_checks_go_twenty_deep_and_the_outermost_makes_the_rest(
    purgatory: DelayedOperationPurgatory,
) -> None:
    order: list[object] = []
    answers: list[int] = []

    def completed(number: int) -> None:
        order.append(number)
        answers.append(purgatory.check_and_complete(number + 1))

    for number in range(30):
        request = Request(complete=lambda number=number: completed(number))
        purgatory.try_complete_else_watch(request, [number])
        request.ready = True
    last = Request(complete=lambda: order.append("the outermost key's second"))
    purgatory.try_complete_else_watch(last, [0])
    last.ready = True
    assert purgatory.check_and_complete(0) == 2
    assert order == [*range(DEEPEST), "the outermost key's second", *range(DEEPEST, 30)]
    # The innermost returns first: one check was postponed, and so was what follows on it.
    assert answers[:DEEPEST] == [0] + [1] * (DEEPEST - 1)


def test_check_that_was_postponed_is_made_once(purgatory: DelayedOperationPurgatory) -> None:
    def completed(number: int) -> None:
        purgatory.check_and_complete(number + 1)

    for number in range(DEEPEST):
        request = Request(complete=lambda number=number: completed(number))
        purgatory.try_complete_else_watch(request, [number])
        request.ready = True
    postponed = Request()
    purgatory.try_complete_else_watch(postponed, [DEEPEST])
    purgatory.check_and_complete(0)
    assert postponed.tries == 2
    purgatory.check_and_complete("another")
    purgatory.check_and_complete(0)
    assert postponed.tries == 2
