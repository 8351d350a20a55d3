"""What a purgatory does, of either design, in a few flat lists and with no thread but the caller's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from request_purgatory import InvalidArgumentError, PurgatoryClosedError
from tests.model.naive_timer import NS_PER_MS
from tests.support.requests import Fault

#: What a request's own code raises, and what its deeds do where the purgatory refuses them.
RAISED = (Fault, PurgatoryClosedError, InvalidArgumentError)

Event: TypeAlias = tuple[Literal["event"], str, int]
End: TypeAlias = tuple[Literal["complete", "cancel", "discard"], int]
Other: TypeAlias = (
    tuple[Literal["cancel_for_key"], str]
    | tuple[Literal["purge"]]
    | tuple[Literal["watch"], "Plan"]
)
#: What a request brings about inside its tries and callbacks; a request by its number, modulo how
#: many there are.
Deed: TypeAlias = Event | End | Other


@dataclass(eq=False)
class Plan:
    """How a request behaves. The model's request and the real one are made from the same plan.

    It is satisfied once the level of all (or any) of its keys is at least `needs`.

    Attributes:
        meddling: what one of its tries brings about, from the inside.
        meddling_try: the number of that try; an event concerns the try that is running.
        chain: what its completion brings about, from on_complete.
        parting: what its cancellation brings about, from on_cancellation.
        failing_tries: the numbers of its tries that raise, the first one being 1.
        failing_callbacks: those of "complete", "expiration" and "cancellation" that raise.
    """

    keys: list[str]
    delay_ms: int
    needs: int
    every_key: bool
    meddling: Deed | None = None
    meddling_try: int = 1
    chain: Deed | None = None
    parting: Deed | None = None
    failing_tries: frozenset[int] = frozenset()
    failing_callbacks: frozenset[str] = frozenset()

    def satisfied(self, level: Counter[str]) -> bool:
        """Whether the condition holds."""
        quantifier = all if self.every_key else any
        return quantifier(level[key] >= self.needs for key in self.keys)


@dataclass(eq=False)
class NaiveRequest:
    """The model's side of a request."""

    plan: Plan
    outcome: str | None = None
    tries: int = 0
    calls: list[str] = field(default_factory=list)
    met: bool = False
    entered: bool = False
    due_ms: int | None = None
    trying: bool = False
    noted: bool = False


class NaivePurgatory:
    """Watcher lists are one list of (key, request), the timer is a scan over all requests."""

    def __init__(self, *, legacy: bool, tick_ms: int, purge_interval: int, now_ms: int) -> None:
        self.legacy = legacy
        self.tick_ms = tick_ms
        self.purge_interval = purge_interval
        self.now_ns = now_ms * NS_PER_MS
        self.level: Counter[str] = Counter()
        self.entries: list[tuple[str, NaiveRequest]] = []
        self.queue: list[NaiveRequest] = []  # 0.8's, with what has ended in it too
        self.ends: Counter[str] = Counter()
        self.entered = 0
        self.estimate = 0
        self.since_purge = 0
        self.purges = 0
        self.callback_errors = 0
        self.is_closed = False
        #: All requests that it was ever given, in their order.
        self.given: list[NaiveRequest] = []

    # -- what is there

    @property
    def pending(self) -> list[NaiveRequest]:
        """Those that wait; what is about to be cancelled may have left the lists before."""
        return [request for request in self.given if request.entered and request.outcome is None]

    @property
    def requests(self) -> list[NaiveRequest]:
        """Those in the lists, each once."""
        return list(dict.fromkeys(request for _, request in self.entries))

    @property
    def watched(self) -> int:
        return len(self.entries) + len(self.queue)

    def watchers(self, key: str) -> list[NaiveRequest]:
        return [request for watched, request in self.entries if watched == key]

    # -- what is done to it

    def watch(self, request: NaiveRequest) -> bool:
        """As try_complete_else_watch; raises the request's own Fault."""
        self.given.append(request)
        if self.is_closed:
            raise PurgatoryClosedError("naive")
        request.met = True
        self.entries += [(key, request) for key in request.plan.keys]
        try:
            completed = self.attempt(request)
        except RAISED:
            self.cancel_untold(request)
            self.leave(request)
            raise
        if request.outcome is not None:
            self.leave(request)
            return completed
        request.entered = True
        self.entered += 1
        self.estimate += 1
        self.since_purge += 1
        if request.plan.delay_ms > 0:
            self.await_timeout(request)
            return False
        try:
            self.end(request, "expired")
        except Fault:
            self.leave(request)
            raise
        return False

    def leave(self, request: NaiveRequest) -> None:
        self.entries = [entry for entry in self.entries if entry[1] is not request]

    def await_timeout(self, request: NaiveRequest) -> None:
        tick_ns = (1 if self.legacy else self.tick_ms) * NS_PER_MS
        deadline_ns = self.now_ns + request.plan.delay_ms * NS_PER_MS
        request.due_ms = -(-deadline_ns // tick_ns) * tick_ns // NS_PER_MS
        if self.legacy:
            self.queue.append(request)

    def event(self, key: str, amount: int) -> int:
        self.level[key] += amount
        return self.check(key)

    def check(self, key: str) -> int:
        """As check_and_complete; after a shutdown no list has anything left."""
        completed = 0
        for request in self.watchers(key):
            if request.outcome is None:
                try:
                    completed += self.attempt(request)
                except RAISED:
                    self.callback_errors += 1
                    completed += request.outcome == "completed"
            if request.outcome is not None and (key, request) in self.entries:
                self.entries.remove((key, request))
        return completed

    def advance(self, now_ns: int) -> None:
        """The clock moves, what is due expires, and a purge happens if it is time for one."""
        self.now_ns = now_ns
        now_ms = now_ns // NS_PER_MS
        for request in self.pending:
            if request.due_ms is not None and request.due_ms <= now_ms:
                try:
                    self.end(request, "expired")
                except Fault:
                    self.callback_errors += 1
        self.queue = [
            request for request in self.queue if request.due_ms is None or request.due_ms > now_ms
        ]
        if self.legacy:
            purge_due = self.since_purge >= max(self.purge_interval, 1)
        else:
            purge_due = self.estimate - len(self.pending) > self.purge_interval
        if purge_due:
            self.purge()

    def purge(self) -> int:
        """As purge.

        The new design leaves a request that ends inside its own try to the check that tries it.
        """
        before = self.watched
        self.entries = [
            (key, request)
            for key, request in self.entries
            if request.outcome is None or (request.trying and not self.legacy)
        ]
        self.queue = [request for request in self.queue if request.outcome is None]
        self.estimate = len(self.pending)
        self.since_purge = 0
        self.purges += 1
        return before - self.watched

    def cancel_for_key(self, key: str) -> list[NaiveRequest]:
        watchers = self.watchers(key)
        self.entries = [entry for entry in self.entries if entry[0] != key]
        return self.cancel_all(watchers)

    def discard(self, request: NaiveRequest) -> bool:
        """As discard."""
        if not request.met:
            raise InvalidArgumentError("operation", "one of this purgatory", request)
        cancelled = self.cancel_all([request])
        self.leave(request)
        return bool(cancelled)

    def shutdown(self, order: list[NaiveRequest]) -> list[NaiveRequest]:
        """As shutdown, in an order that the real one does not promise."""
        self.is_closed = True
        self.entries = []
        self.queue = []
        return self.cancel_all(order)

    def perform(self, deed: Deed) -> None:
        """Do what a request does inside its tries and callbacks."""
        match deed:
            case ("event", key, amount):
                self.event(key, amount)
            case ("complete", number):
                self.end(self.given[number % len(self.given)], "completed")
            case ("cancel", number):
                self.end(self.given[number % len(self.given)], "cancelled")
            case ("discard", number):
                self.discard(self.given[number % len(self.given)])
            case ("cancel_for_key", key):
                self.cancel_for_key(key)
            case ("purge",):
                self.purge()
            case ("watch", plan):
                self.watch(NaiveRequest(plan))

    # -- how a request goes on

    def attempt(self, request: NaiveRequest) -> bool:
        """Try; and again, if an event came meanwhile that would have tried it."""
        if request.outcome is not None:
            return False
        if request.trying:
            request.noted = True
            return False
        request.trying = True
        try:
            while True:
                request.noted = False
                try:
                    completed = self.attempt_once(request)
                except RAISED:
                    if request.outcome is not None or not request.noted:
                        raise
                    self.callback_errors += 1
                else:
                    if request.outcome is not None or not request.noted:
                        return completed
        finally:
            request.trying = False

    def attempt_once(self, request: NaiveRequest) -> bool:
        plan = request.plan
        request.tries += 1
        if request.tries in plan.failing_tries:
            raise Fault
        if plan.satisfied(self.level):
            return self.end(request, "completed")
        if plan.meddling is not None and request.tries == plan.meddling_try:
            self.perform(plan.meddling)
        return False

    def end(self, request: NaiveRequest, outcome: str) -> bool:
        if request.outcome is not None:
            return False
        request.outcome = outcome
        self.ends[outcome] += request.met
        if outcome == "cancelled":
            self.call(request, "cancellation", request.plan.parting)
            return True
        try:
            self.call(request, "complete", request.plan.chain if outcome == "completed" else None)
        finally:
            if outcome == "expired":
                self.call(request, "expiration")
        return True

    def call(self, request: NaiveRequest, callback: str, deed: Deed | None = None) -> None:
        request.calls.append(callback)
        if deed is not None:
            self.perform(deed)
        if callback in request.plan.failing_callbacks:
            raise Fault

    def cancel_untold(self, request: NaiveRequest) -> None:
        """The caller has the exception, so there is no callback."""
        if request.outcome is None:
            request.outcome = "cancelled"
            self.ends["cancelled"] += 1

    def cancel_all(self, requests: list[NaiveRequest]) -> list[NaiveRequest]:
        cancelled = []
        for request in requests:
            if request.outcome is None:
                cancelled.append(request)
                try:
                    self.end(request, "cancelled")
                except RAISED:
                    self.callback_errors += 1
        return cancelled
