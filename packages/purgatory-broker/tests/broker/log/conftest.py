"""Fixtures for the tests of logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings

MakeLog = Callable[..., PartitionLog]


@pytest.fixture(params=["memory", "file"])
def make_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeLog]:
    """Return a function that creates logs, whose invariants are checked after the test."""
    made: list[PartitionLog] = []

    def make(**settings: Any) -> PartitionLog:
        name = f"t-{len(made)}"
        if request.param == "memory":
            log = PartitionLog.in_memory(name, LogSettings(**settings))
        else:
            log = PartitionLog.open(name, tmp_path / name, LogSettings(**settings))
        made.append(log)
        return log

    yield make
    for log in made:
        if not log._closed:
            log.check()
        log.close()
