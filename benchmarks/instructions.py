"""Count the machine instructions of the core's operations.

    python -m benchmarks.instructions [--record]

`valgrind` runs each loop twice, with few and with many turns. The difference of the two counts,
divided by the difference in turns, is the cost of one turn without start and end of the program.
Clocks are manual and the hash seed is fixed, so a count is the same in every run, whatever else the
machine does. It depends on the interpreter: `recorded_instructions.json` has a record for each that
was used, told apart by version and by the count of `reference`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import cycle as cycle_through
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import peers, reference
from benchmarks.delays import pending_ms
from benchmarks.peers import no_op
from benchmarks.published_run import TimedRequest
from benchmarks.request import ADVANCE_EVERY, TIMEOUT_MS, Request, open_purgatory, watch_keys
from request_purgatory import ManualClock, SystemTimer

#: Instructions of one turn, by the loop's name.
Counts: TypeAlias = dict[str, float]

RECORD = Path(__file__).with_name("recorded_instructions.json")
#: A count that is larger than the recorded one by more than this share fails.
TOLERANCE = 0.03
#: Two interpreters whose counts of `reference` differ by less than this share are the same.
_SAME_INTERPRETER = 0.01
_TURNS = (4_000, 12_000)
_PENDING = 10_000
#: Random numbers that a loop draws before it begins, however many turns it has.
_DRAWN = 1_024


def pair(turns: int) -> None:
    """Schedule a timer and cancel it, while others are pending."""
    timer = SystemTimer("instructions", clock=ManualClock())
    call_later_ms = timer.call_later_ms
    for delay in pending_ms(_PENDING):
        call_later_ms(delay, no_op)
    for delay in islice(cycle_through(pending_ms(_DRAWN, seed=2)), turns):
        call_later_ms(delay, no_op).cancel()


def add(turns: int) -> None:
    """Schedule a timer that stays pending."""
    call_later_ms = SystemTimer("instructions", clock=ManualClock()).call_later_ms
    handles: list[object] = [None] * turns
    for turn, delay in enumerate(islice(cycle_through(pending_ms(_DRAWN)), turns)):
        handles[turn] = call_later_ms(delay, no_op)


def add_and_expire(turns: int) -> None:
    """Schedule a timer, and run it in a clock that goes on by a millisecond at a time."""
    clock = ManualClock()
    timer = SystemTimer("instructions", clock=clock)
    call_later_ms = timer.call_later_ms
    for turn in range(turns):
        call_later_ms(1 + turn % 1_000, no_op)
    for _ in range(1_001):
        clock.advance(1)
        timer.advance_clock(0)
    if timer.size:
        raise RuntimeError(f"{timer.size} timers did not run")


def cycle(turns: int, keys: int) -> None:
    """Make a request, watch it under a number of keys, complete it by an event on the first."""
    clock = ManualClock()
    purgatory = open_purgatory(peers.OURS, clock)
    watch = purgatory.try_complete_else_watch
    check = purgatory.check_and_complete
    watched = watch_keys(keys)
    key = watched[0]
    for turn in range(turns):
        request = Request(TIMEOUT_MS)
        request.ready = False
        watch(request, watched)
        request.ready = True
        check(key)
        if turn % ADVANCE_EVERY == 0:
            clock.advance(1)
            purgatory.advance_clock(0)
    if purgatory.num_delayed:
        raise RuntimeError(f"{purgatory.num_delayed} requests were left pending")


def expired_request(turns: int) -> None:
    """Make a request, watch it under one key, and let it expire."""
    clock = ManualClock()
    purgatory = open_purgatory(peers.OURS, clock)
    watch = purgatory.try_complete_else_watch
    watched = watch_keys(1)
    for turn in range(turns):
        request = Request(1 + turn % 1_000)
        request.ready = False
        watch(request, watched)
    for _ in range(1_001):
        clock.advance(1)
        purgatory.advance_clock(0)
    if purgatory.num_delayed:
        raise RuntimeError(f"{purgatory.num_delayed} requests did not expire")


def published(turns: int) -> None:
    """Do the published benchmark's work on one thread: 3 shared keys, completions out of order."""
    clock = ManualClock()
    purgatory = open_purgatory(peers.OURS, clock)
    watch = purgatory.try_complete_else_watch
    keys = watch_keys(3)
    draw = random.Random(1).randrange
    drawn = cycle_through([draw(_PENDING) for _ in range(_DRAWN)])
    pending: list[TimedRequest] = []
    for turn in range(_PENDING + turns):
        request = TimedRequest(TIMEOUT_MS)
        request.completes_at = float("inf")
        request.payload = b""
        watch(request, keys)
        pending.append(request)
        if turn >= _PENDING:
            index = next(drawn)
            pending[index], pending[-1] = pending[-1], pending[index]
            pending.pop().force_complete()
        if turn % ADVANCE_EVERY == 0:
            clock.advance(1)
            purgatory.advance_clock(0)
    # What is left is the same number for every number of turns.


LOOPS: dict[str, Callable[[int], None]] = {
    "reference": reference.run,
    "pair": pair,
    "add": add,
    "add and expire": add_and_expire,
    "cycle, 1 key": lambda turns: cycle(turns, 1),
    "cycle, 3 keys": lambda turns: cycle(turns, 3),
    "expired request": expired_request,
    "published": published,
}


def count(name: str, turns: int) -> int:
    """Return the instructions of a whole process that runs a loop.

    Args:
        name: A name in `LOOPS`.
        turns: The loop's turns.

    Raises:
        RuntimeError: The process failed.
    """
    run = [sys.executable, "-m", "benchmarks.instructions", "--run", name, "--turns"]
    # The first run of all compiles the modules to bytecode, which is not counted.
    subprocess.run([*run, "1"], capture_output=True)
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
    command = [*valgrind, "--cachegrind-out-file=/dev/null", *run, str(turns)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"}
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return int(found.group(1).replace(",", ""))


def count_all(console: Console) -> Counts:
    """Return the instructions of one turn of each loop."""
    few, many = _TURNS
    return {
        name: (count(name, many) - count(name, few)) / (many - few)
        for name in track(LOOPS, "counting", console=console, transient=True)
    }


def find_record(records: list[dict[str, object]], counts: Counts) -> Counts | None:
    """Return the recorded counts of this interpreter; None if it has none."""
    for record in records:
        recorded: Counts = record["counts"]  # type: ignore[assignment]
        share = counts["reference"] / recorded["reference"]
        if record["python"] == platform.python_version() and abs(share - 1) < _SAME_INTERPRETER:
            return recorded
    return None


def grown(counts: Counts, recorded: Counts) -> list[str]:
    """Return the loops whose count is above the recorded one by more than `TOLERANCE`."""
    return [
        name
        for name, instructions in counts.items()
        if name in recorded and instructions > recorded[name] * (1 + TOLERANCE)
    ]


def to_table(counts: Counts, recorded: Counts | None) -> Table:
    """Return the counts beside the recorded ones."""
    table = Table(title=f"Instructions of one turn, CPython {platform.python_version()}")
    table.add_column("loop")
    for column in ("instructions", "times the reference", "recorded", "change"):
        table.add_column(column, justify="right")
    for name, instructions in counts.items():
        before = None if recorded is None else recorded.get(name)
        table.add_row(
            name,
            f"{instructions:,.0f}",
            f"{instructions / counts['reference']:.2f}",
            "" if before is None else f"{before:,.0f}",
            "" if before is None else f"{instructions / before - 1:+.1%}",
        )
    return table


def main(arguments: list[str]) -> int:
    """Count, compare and print.

    Returns:
        The exit code: 0, 1 if a count has grown, 2 if valgrind is missing.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions")
    parser.add_argument("--record", action="store_true", help="record the counts")
    parser.add_argument("--run", choices=LOOPS, help="run one loop, as the counted process does")
    parser.add_argument("--turns", type=int, default=_TURNS[0])
    options = parser.parse_args(arguments)
    if options.run is not None:
        gc.disable()
        LOOPS[options.run](options.turns)
        sys.stdout.flush()
        os._exit(0)  # Freeing what is pending is not part of a turn.
    console = Console()
    if shutil.which("valgrind") is None:
        console.print("counting instructions needs valgrind: apt-get install valgrind")
        return 2
    counts = count_all(console)
    records = json.loads(RECORD.read_text()) if RECORD.exists() else []
    recorded = find_record(records, counts)
    console.print(to_table(counts, recorded))
    if options.record:
        records = [record for record in records if record["counts"] is not recorded]
        records.append({"python": platform.python_version(), "counts": counts})
        RECORD.write_text(json.dumps(records, indent=2) + "\n")
        return 0
    if recorded is None:
        console.print("this interpreter has no record to compare with; --record makes one")
        return 0
    larger = grown(counts, recorded)
    if larger:
        console.print(f"more than {TOLERANCE:.0%} above the record: {', '.join(larger)}")
    return 1 if larger else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
