"""Makes all wrong calls on the build that is imported, and prints their outcomes as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from dataclasses import asdict
from itertools import groupby

from request_purgatory.aio import TimingWheelEventLoop
from tests.misuse.calls import Call, all_calls
from tests.misuse.outcomes import outcomes_of
from tests.misuse.subjects import PARTS, LoopWorld, World


async def _list_calls() -> list[Call]:
    loop_world = LoopWorld()
    await loop_world.enter()
    found = list(all_calls(World(), loop_world))
    loop_world.check()
    return found


def _batch(call: Call) -> str:
    """Return what calls of one batch have in common; a part may spoil its process."""
    return str(call) if call.subject in PARTS else f"{call.subject}.{call.member}"


def main(prefix: str = "") -> None:
    """Print the outcomes of all calls, or of those that begin with a prefix."""
    with asyncio.Runner(loop_factory=TimingWheelEventLoop) as runner:
        calls = [call for call in runner.run(_list_calls()) if str(call).startswith(prefix)]
    gc.collect()
    gc.freeze()  # A child's collections look at its own objects alone.
    outcomes = {}
    for _, batch in groupby(calls, _batch):
        made = list(batch)
        for call, outcome in zip(made, outcomes_of(made), strict=True):
            outcomes[str(call)] = asdict(outcome)
    json.dump(outcomes, sys.stdout, indent=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
