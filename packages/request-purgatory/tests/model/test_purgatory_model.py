"""The purgatory, of both designs, against a naive one.

Hypothesis looks for a history on which they differ.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
)
from request_purgatory.legacy import LegacyPurgatory
from tests.model.naive_purgatory import Action, NaivePurgatory, NaiveRequest, Plan
from tests.model.naive_timer import NS_PER_MS
from tests.support.invariants import check_invariants
from tests.support.profiles import examples
from tests.support.requests import Fault

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS

KEYS = st.sampled_from("abcde")
NUMBERS = st.integers(0, 100)
DELAYS = st.one_of(
    st.integers(-1, 3), st.integers(1, 100), st.integers(1, 2 * HOUR_MS), st.just(YEAR_MS)
)
#: Plans of requests that only wait.
PLAIN_PLANS = st.builds(
    Plan,
    keys=st.lists(KEYS, min_size=1, max_size=2),
    delay_ms=DELAYS,
    needs=st.integers(1, 12),
    every_key=st.booleans(),
)
EVENTS = st.tuples(st.just("event"), KEYS, st.integers(1, 3))
ACTIONS = st.one_of(
    EVENTS,
    EVENTS,
    st.tuples(st.sampled_from(["complete", "cancel", "discard"]), NUMBERS),
    st.tuples(st.just("cancel_for_key"), KEYS),
    st.just(("purge",)),
    st.tuples(st.just("watch"), PLAIN_PLANS),
)
PLANS = st.builds(
    Plan,
    keys=st.lists(KEYS, min_size=1, max_size=4),
    delay_ms=DELAYS,
    needs=st.integers(1, 12),
    every_key=st.booleans(),
    inner_action=st.one_of(st.none(), ACTIONS),
    inner_action_try=st.integers(1, 4),
    completion_action=st.one_of(st.none(), st.none(), ACTIONS),
    cancellation_action=st.one_of(st.none(), st.none(), ACTIONS),
    failing_tries=st.one_of(
        st.just(frozenset()), st.just(frozenset()), st.frozensets(st.integers(1, 5), max_size=2)
    ),
    failing_callbacks=st.one_of(
        st.just(frozenset()),
        st.just(frozenset()),
        st.frozensets(st.sampled_from(["complete", "expiration", "cancellation"])),
    ),
)


class PlannedRequest(DelayedOperation):
    """The real purgatory's request, which follows its plan."""

    def __init__(self, world: PurgatoryMachine, plan: Plan) -> None:
        super().__init__(plan.delay_ms)
        self.world = world
        self.plan = plan
        self.tries = 0
        self.calls: list[str] = []
        self.inside = False

    def try_complete(self) -> bool:
        assert not self.inside, "two tries overlap"
        self.inside = True
        try:
            self.tries += 1
            if self.tries in self.plan.failing_tries:
                raise Fault
            if self.plan.satisfied(self.world.level):
                return self.force_complete()
            if self.plan.inner_action is not None and self.tries == self.plan.inner_action_try:
                self.world.perform(self.plan.inner_action)
            return False
        finally:
            self.inside = False

    def on_complete(self) -> None:
        self.call("complete", self.plan.completion_action if self.outcome == "completed" else None)

    def on_expiration(self) -> None:
        self.call("expiration")

    def on_cancellation(self) -> None:
        self.call("cancellation", self.plan.cancellation_action)

    def call(self, callback: str, action: Action | None = None) -> None:
        self.calls.append(callback)
        if action is not None:
            self.world.perform(action)
        if callback in self.plan.failing_callbacks:
            raise Fault


class PurgatoryMachine(RuleBasedStateMachine):
    """Applies each step to both purgatories and compares every request and counter."""

    legacy = False

    @initialize(
        tick_ms=st.sampled_from([1, 1, 3, 10, 250]),
        wheel_size=st.sampled_from([2, 3, 20]),
        shards=st.sampled_from([1, 2, 7, 512]),
        purge_interval=st.sampled_from([0, 1, 2, 5, 20]),
        now_ms=st.sampled_from([0, 777]),
    )
    def begin(
        self, tick_ms: int, wheel_size: int, shards: int, purge_interval: int, now_ms: int
    ) -> None:
        self.clock = ManualClock(now_ms)
        if self.legacy:
            self.real: DelayedOperationPurgatory = LegacyPurgatory(
                "model", clock=self.clock, purge_interval=purge_interval, reaper=False
            )
        else:
            timer = SystemTimer("model", tick_ms=tick_ms, wheel_size=wheel_size, clock=self.clock)
            self.real = DelayedOperationPurgatory(
                "model", timer=timer, purge_interval=purge_interval, shards=shards, reaper=False
            )
        self.model = NaivePurgatory(
            legacy=self.legacy, tick_ms=tick_ms, purge_interval=purge_interval, now_ms=now_ms
        )
        self.level: Counter[str] = Counter()
        #: All requests that the real purgatory was ever given, in order, as `model.given`.
        self.given: list[PlannedRequest] = []

    def event(self, key: str, amount: int) -> int:
        """Change a level and notify the real purgatory only."""
        self.level[key] += amount
        return self.real.check_and_complete(key)

    def enter(self, plan: Plan) -> bool:
        """Add a request to the real purgatory only."""
        self.given.append(PlannedRequest(self, plan))
        return self.real.try_complete_else_watch(self.given[-1], plan.keys)

    def perform(self, action: Action) -> None:
        """Do what a request's plan says, on the real side only."""
        match action:
            case ("event", key, amount):
                self.event(key, amount)
            case ("complete", number):
                self.given[number % len(self.given)].force_complete()
            case ("cancel", number):
                self.given[number % len(self.given)].cancel()
            case ("discard", number):
                self.real._discard(self.given[number % len(self.given)])
            case ("cancel_for_key", key):
                self.real.cancel_for_key(key)
            case ("purge",):
                self.real.purge()
            case ("watch", plan):
                self.enter(plan)

    def both(self, real: Callable[[], object], model: Callable[[], object]) -> None:
        """Call both sides; both have to return the same, or raise Fault."""
        results = []
        for act in (real, model):
            try:
                results.append(act())
            except Fault:
                results.append(Fault)
        assert results[0] == results[1]

    def pair(self, number: int) -> tuple[PlannedRequest, NaiveRequest] | None:
        if not self.given:
            return None
        number %= len(self.given)
        return self.given[number], self.model.given[number]

    def numbers(self, requests: list[DelayedOperation] | list[NaiveRequest]) -> list[int]:
        """Return requests of either side as their numbers."""
        places = {
            id(request): number
            for given in (self.given, self.model.given)
            for number, request in enumerate(given)
        }
        return sorted(places[id(request)] for request in requests)

    # -- steps

    @rule(plan=PLANS)
    def watch(self, plan: Plan) -> None:
        self.both(lambda: self.enter(plan), lambda: self.model.watch(NaiveRequest(plan)))

    @rule(plans=st.lists(PLANS, min_size=3, max_size=12))
    def watch_many(self, plans: list[Plan]) -> None:
        for plan in plans:
            self.watch(plan)

    @rule(key=KEYS, amount=st.integers(0, 3))
    def bring_an_event(self, key: str, amount: int) -> None:
        self.both(lambda: self.event(key, amount), lambda: self.model.event(key, amount))

    @rule(number=NUMBERS)
    def force_complete(self, number: int) -> None:
        pair = self.pair(number)
        if pair:
            self.both(pair[0].force_complete, lambda: self.model.end(pair[1], "completed"))

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        pair = self.pair(number)
        if pair:
            self.both(pair[0].cancel, lambda: self.model.end(pair[1], "cancelled"))

    @rule(number=NUMBERS)
    def discard(self, number: int) -> None:
        pair = self.pair(number)
        if pair:
            self.both(lambda: self.real._discard(pair[0]), lambda: self.model.discard(pair[1]))

    @rule(key=KEYS)
    def cancel_for_key(self, key: str) -> None:
        self.both(
            lambda: self.numbers(self.real.cancel_for_key(key)),
            lambda: self.numbers(self.model.cancel_for_key(key)),
        )

    @rule(ms=st.one_of(st.integers(0, 5), st.integers(0, 200), st.just(HOUR_MS), st.just(YEAR_MS)))
    def jump(self, ms: int) -> None:
        self.creep(ms * NS_PER_MS)

    @rule(ns=st.integers(0, 5 * NS_PER_MS))
    def creep(self, ns: int) -> None:
        now_ns = self.clock.now_ns + ns
        self.clock.advance_to_ns(now_ns)
        self.real.advance_clock(0)
        self.model.advance(now_ns)

    @rule()
    def purge(self) -> None:
        self.both(self.real.purge, self.model.purge)

    # -- after each step

    @invariant()
    def agrees(self) -> None:
        real, model = self.real, self.model
        check_invariants(real)
        for number, (request, expected) in enumerate(zip(self.given, model.given, strict=True)):
            found = (request.outcome, request.calls, request.tries)
            assert found == (expected.outcome, expected.calls, expected.tries), (
                f"request {number} differs: {request.plan}"
            )
        assert self.level == model.level
        assert real.num_delayed == len(model.pending)
        assert real.watched == model.watched
        for key in "abcde":
            assert real.num_watchers(key) == len(model.watchers(key))
        assert self.numbers(real.operations()) == self.numbers(model.requests)
        metrics = real.metrics()
        assert metrics.completions == model.ends["completed"]
        assert metrics.expirations == model.ends["expired"]
        assert metrics.cancellations == model.ends["cancelled"]
        assert metrics.estimated_operations == model.estimate
        assert metrics.purges == model.purges
        assert metrics.callback_errors == model.callback_errors
        assert sum(metrics.wait_histogram_ms) == sum(model.ends.values())
        if not self.legacy:
            assert real.timer.size == real.num_delayed, "an ended operation is still in the timer"

    @invariant()
    def keeps_its_promises(self) -> None:
        """Check the contract of each request without the model."""
        for request in self.given:
            ended_by = [call for call in request.calls if call != "expiration"]
            assert len(ended_by) <= 1
            if request.outcome is None:
                assert request.calls == []
                # A check after an event may have met a try that raised. Otherwise no event is lost.
                assert request.plan.failing_tries or not request.plan.satisfied(self.level)
            elif request.outcome != "cancelled":
                assert ended_by == ["complete"]
            assert ("expiration" in request.calls) == (request.outcome == "expired")

    def teardown(self) -> None:
        if not hasattr(self, "real"):
            return
        order = [self.model.given[self.given.index(request)] for request in self.real.operations()]
        self.both(
            lambda: self.numbers(self.real.close()),
            lambda: self.numbers(self.model.shutdown(order)),
        )
        self.agrees()
        assert self.real.num_delayed == self.real.watched == self.real.timer.size == 0
        assert self.real.check_and_complete("a") == 0


class LegacyPurgatoryMachine(PurgatoryMachine):
    """PurgatoryMachine for the design of Kafka 0.8."""

    legacy = True


@pytest.mark.explore
@pytest.mark.parametrize(
    "machine", [PurgatoryMachine, LegacyPurgatoryMachine], ids=["wheel", "legacy"]
)
def test_purgatory_agrees_with_the_model(
    machine: type[PurgatoryMachine], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(
        logging.CRITICAL, "request_purgatory"
    )  # Thousands of intended faults, whose formatting takes most of the time.
    run_state_machine_as_test(machine, settings=examples(120, stateful_step_count=30))
