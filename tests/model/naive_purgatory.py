"""What a purgatory does, of either design, in a few flat lists and with no thread but the caller's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.model.naive_timer import NS_PER_MS
from tests.requests import Fault


@dataclass(eq=False)
class Plan:
    """How a request behaves. The model's request and the real one are made from the same plan.

    It is satisfied once the level of all (or any) of its keys is at least `needs`.

    Attributes:
        meddling: an event that one of its tries brings about, from the inside: (key, amount).
        meddling_try: the number of that try; the event concerns the try that is running.
        chain: an event that its completion brings about, from on_complete: (key, amount).
        failing_tries: the numbers of its tries that raise, the first one being 1.
        failing_callbacks: those of "complete", "expiration" and "cancellation" that raise.
    """

    keys: list[str]
    delay_ms: int
    needs: int
    every_key: bool
    meddling: tuple[str, int] | None = None
    meddling_try: int = 1
    chain: tuple[str, int] | None = None
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

    # -- what is there

    @property
    def pending(self) -> list[NaiveRequest]:
        return [request for request in self.requests if request.outcome is None]

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
        self.entries += [(key, request) for key in request.plan.keys]
        try:
            completed = self.attempt(request)
        except Fault:
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
        """As check_and_complete."""
        completed = 0
        for request in self.watchers(key):
            if request.outcome is None:
                try:
                    completed += self.attempt(request)
                except Fault:
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
        self.queue = [request for request in self.queue if request.due_ms is None or request.due_ms > now_ms]
        if self.legacy:
            purge_due = self.since_purge >= max(self.purge_interval, 1)
        else:
            purge_due = self.estimate - len(self.pending) > self.purge_interval
        if purge_due:
            self.purge()

    def purge(self) -> int:
        before = self.watched
        self.entries = [(key, request) for key, request in self.entries if request.outcome is None]
        self.queue = [request for request in self.queue if request.outcome is None]
        self.estimate = len(self.pending)
        self.since_purge = 0
        self.purges += 1
        return before - self.watched

    def cancel_for_key(self, key: str) -> list[NaiveRequest]:
        watchers = self.watchers(key)
        self.entries = [entry for entry in self.entries if entry[0] != key]
        return self.cancel_all(watchers)

    def shutdown(self) -> list[NaiveRequest]:
        requests = self.requests
        self.entries = []
        self.queue = []
        return self.cancel_all(requests)

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
                completed = self.attempt_once(request)
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
            self.event(*plan.meddling)
        return False

    def end(self, request: NaiveRequest, outcome: str) -> bool:
        if request.outcome is not None:
            return False
        request.outcome = outcome
        self.ends[outcome] += 1
        if outcome == "cancelled":
            self.call(request, "cancellation")
            return True
        try:
            if outcome == "completed" and request.plan.chain is not None:
                self.event(*request.plan.chain)
            self.call(request, "complete")
        finally:
            if outcome == "expired":
                self.call(request, "expiration")
        return True

    def call(self, request: NaiveRequest, callback: str) -> None:
        request.calls.append(callback)
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
                except Fault:
                    self.callback_errors += 1
        return cancelled
