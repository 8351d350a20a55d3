"""The timer against a naive one: Hypothesis looks for a history on which they differ."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from request_purgatory import ManualClock, SystemTimer, TimerTask
from tests.model.naive_timer import NS_PER_MS, NaiveTimer
from tests.support.invariants import check_invariants
from tests.support.profiles import examples

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS

DELAYS = st.one_of(
    st.integers(-2, 3),
    st.integers(1, 60),
    st.integers(1, 10_000),
    st.integers(1, HOUR_MS),
    st.integers(1, 20 * YEAR_MS),
)
# The action of a task when it runs: the number is that of another task, modulo their count.
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), DELAYS, st.just(0)),
        st.tuples(st.just("again"), st.integers(1, 500), st.just(0)),
        st.tuples(st.just("move"), st.integers(1, 500), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.just(0), st.integers(0, 30)),
        st.tuples(st.just("raise"), st.just(0), st.just(0)),
    ),
    max_size=2,
)


class Chore(TimerTask):
    """A task that reports its runs to the machine."""

    def __init__(
        self, machine: TimerMachine, number: int, delay_ms: int, deeds: list[tuple[str, int, int]]
    ) -> None:
        super().__init__(delay_ms)
        self.machine = machine
        self.number = number
        self.deeds = deeds

    def run(self) -> None:
        self.machine.ran(self)


class TimerMachine(RuleBasedStateMachine):
    """Applies each step to both timers; the model checks the time of every run."""

    @initialize(
        tick_ms=st.sampled_from([1, 1, 2, 7, 50, 1000]),
        wheel_size=st.sampled_from([2, 2, 3, 5, 20, 512]),
        now_ms=st.sampled_from([0, 1, 999, 123_456_789]),
    )
    def begin(self, tick_ms: int, wheel_size: int, now_ms: int) -> None:
        self.clock = ManualClock(now_ms)
        self.timer = SystemTimer("model", tick_ms=tick_ms, wheel_size=wheel_size, clock=self.clock)
        self.model = NaiveTimer(tick_ms)
        self.chores: list[Chore] = []
        self.deadlines_ns: dict[int, int] = {}
        self.at_once: list[int] = []
        self.raised = 0
        self.started = 0
        self.stepping = False

    # -- steps

    def pend(self, chore: Chore, delay_ms: int) -> None:
        chore.delay_ms = delay_ms
        now_ns = self.clock.now_ns
        self.deadlines_ns[chore.number] = now_ns + delay_ms * NS_PER_MS
        if not self.model.add(chore.number, now_ns, delay_ms):
            self.at_once.append(chore.number)
        self.timer.add(chore)
        assert chore.number not in self.at_once, "a task without a delay did not run at once"

    def ran(self, chore: Chore) -> None:
        number = chore.number
        late_ns = self.clock.now_ns - self.deadlines_ns[number]
        if number in self.at_once:
            self.at_once.remove(number)
        else:
            due_ms = self.model.due_ms(number)
            assert due_ms is not None, f"task {number} ran, but it was not pending"
            assert late_ns >= 0, f"task {number} ran {-late_ns} ns early"
            assert due_ms == self.model.first_due_ms, (
                f"task {number} ran before one of an earlier tick"
            )
            if self.stepping:
                assert late_ns < self.model.tick_ms * NS_PER_MS, (
                    f"task {number} ran {late_ns} ns late"
                )
            self.model.cancel(number)
            self.started += 1
        assert self.timer.size == len(self.model.pending), (
            "a task that runs is still counted as pending"
        )
        for deed, delay_ms, other in chore.deeds:
            if deed == "add":
                self.pend(self.make(delay_ms, []), delay_ms)
            elif deed == "again":
                self.pend(chore, delay_ms)
            elif deed == "move":
                if self.chores[other % len(self.chores)].number not in self.at_once:
                    self.pend(self.chores[other % len(self.chores)], delay_ms)
            elif deed == "cancel":
                self.cancel(other)
            else:
                self.raised += 1
                raise RuntimeError(f"task {number} fails, as it is meant to")

    def make(self, delay_ms: int, deeds: list[tuple[str, int, int]]) -> Chore:
        chore = Chore(self, len(self.chores), delay_ms, deeds)
        self.chores.append(chore)
        return chore

    @rule(delay_ms=DELAYS, deeds=st.one_of(st.just([]), DEEDS))
    def add(self, delay_ms: int, deeds: list[tuple[str, int, int]]) -> None:
        self.pend(self.make(delay_ms, deeds), delay_ms)

    @rule(delays_ms=st.lists(DELAYS, min_size=5, max_size=30))
    def add_many(self, delays_ms: list[int]) -> None:
        for delay_ms in delays_ms:
            self.pend(self.make(delay_ms, []), delay_ms)

    @rule(number=st.integers(0, 200))
    def cancel(self, number: int) -> None:
        if self.chores:
            chore = self.chores[number % len(self.chores)]
            assert chore.cancel() == self.model.cancel(chore.number)

    @rule(number=st.integers(0, 200), delay_ms=st.one_of(st.integers(1, 100), DELAYS))
    def add_again(self, number: int, delay_ms: int) -> None:
        """Add a task again: a pending one moves, an ended one starts anew."""
        if self.chores:
            self.pend(self.chores[number % len(self.chores)], delay_ms)

    # -- time

    def advance_clock(self) -> None:
        expected = self.model.first_due_ms
        something_due = expected is not None and expected <= self.clock.now_ms
        came_due = self.timer.advance_clock(0)
        assert came_due or not something_due, "advance_clock says that nothing came due"
        first_due_ms = self.model.first_due_ms
        assert first_due_ms is None or first_due_ms > self.clock.now_ms, (
            f"the task due at {first_due_ms} did not run"
        )

    @rule(ms=st.one_of(st.integers(0, 5), st.integers(0, 1000), st.just(HOUR_MS), st.just(YEAR_MS)))
    def jump(self, ms: int) -> None:
        self.clock.advance(ms)
        self.advance_clock()

    @rule(ms=st.one_of(st.integers(1, 50), st.just(HOUR_MS)))
    def move_the_clock_only(self, ms: int) -> None:
        """Advance the clock without the timer, so that tasks are added and cancelled in between."""
        self.clock.advance(ms)

    @rule(ms=st.integers(0, 50), at_most=st.integers(1, 4))
    def run_some(self, ms: int, at_most: int) -> None:
        """Run some due tasks, as an event loop does; the others can be cancelled and moved."""
        self.clock.advance(ms)
        before = self.started
        more = self.timer.run_due(at_most)
        first_due_ms = self.model.first_due_ms
        assert more == (first_due_ms is not None and first_due_ms <= self.clock.now_ms)
        assert self.started - before == at_most if more else self.started - before <= at_most
        if more:
            assert self.timer.next_expiration_ms == self.clock.now_ms

    @rule(ns=st.one_of(st.integers(1, 3 * NS_PER_MS), st.integers(1, 100 * NS_PER_MS)))
    def creep(self, ns: int) -> None:
        self.clock.advance_to_ns(self.clock.now_ns + ns)
        self.advance_clock()

    @rule(steps=st.integers(1, 40))
    def step_from_bucket_to_bucket(self, steps: int) -> None:
        """Advance to the next bucket, as a clock thread does."""
        self.advance_clock()
        self.stepping = True
        for _ in range(steps):
            next_ms = self.timer.next_expiration_ms
            if next_ms is None:
                break
            assert next_ms > self.clock.now_ms, "the clock thread would spin"
            self.clock.advance_to_ns(next_ms * NS_PER_MS)
            self.advance_clock()
        self.stepping = False

    # -- after each step

    @invariant()
    def agrees(self) -> None:
        check_invariants(self.timer)
        assert self.timer.size == len(self.model.pending)
        in_wheels = sum(sum(wheel.counts) for wheel in self.timer.occupancy())
        assert in_wheels + len(self.timer._due.tasks()) == self.timer.size
        assert self.timer.callback_errors == self.raised
        first_due_ms = self.model.first_due_ms
        next_ms = self.timer.next_expiration_ms
        assert (next_ms is None) == (first_due_ms is None)
        if next_ms is not None and first_due_ms is not None:
            # Due tasks that `run_some` did not run are due now.
            assert next_ms <= max(first_due_ms, self.clock.now_ms), (
                "the clock thread would oversleep"
            )

    def teardown(self) -> None:
        if not hasattr(self, "timer"):
            return
        numbers = {task.number for task in self.timer.shutdown()}
        assert numbers == {number for _, number in self.model.pending}
        assert self.timer.size == 0
        check_invariants(self.timer)


TestTimerAgainstModel = TimerMachine.TestCase
TestTimerAgainstModel.settings = examples(250, stateful_step_count=40)
