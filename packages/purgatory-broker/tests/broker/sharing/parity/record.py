"""The cases of share groups, and the records of what two releases of Apache Kafka do in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.broker.parity.case import Case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.fingerprint import Fingerprints
from tests.broker.sharing.parity import (
    group_cases,
    renewal_cases,
    session_cases,
    state_cases,
)

_FOLDER = Path(__file__).parent


def _cases(*groups: tuple[Callable[[CaseHarness], Any], ...]) -> dict[str, Case]:
    return {look.__name__: Case(look.__name__, look) for group in groups for look in group}


#: Those of Kafka 4.1, and those of what Kafka 4.2 adds or mends.
CASES = _cases(group_cases.CASES, session_cases.CASES, state_cases.CASES)
NEXT_CASES = _cases(renewal_cases.NEXT_CASES, group_cases.NEXT_CASES)
#: What every record depends on beside its case.
EVERY_CASE = (
    ("tests.broker.parity.case", "Case"),
    ("tests.broker.sharing.parity.kafka_with_shares", "kafka_with_share_groups"),
)


@dataclass
class Record:
    """The contents of a file: Kafka's version, and the observation and the hash of each case."""

    file: Path
    cases: dict[str, Case]
    version: str = ""
    seen: dict[str, Any] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str, cases: dict[str, Case]) -> Record:
        """Read a file of this folder, if there is one."""
        file = _FOLDER / name
        if not file.exists():
            return cls(file, cases)
        kept = json.loads(file.read_text())
        return cls(file, cases, kept["kafka"], kept["cases"], kept["hashes"])

    def save(self) -> None:
        """Write the file."""
        kept = {"kafka": self.version, "cases": self.seen, "hashes": self.hashes}
        self.file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")

    def changed(self) -> set[str]:
        """Return the cases of which nothing is kept, or something of another hash."""
        fingerprints = Fingerprints()
        return {
            name
            for name, case in self.cases.items()
            if self.hashes.get(name)
            != fingerprints.of((case.look.__module__, case.look.__name__), *EVERY_CASE)
        }


def load_records() -> tuple[Record, Record]:
    """Return the records of Kafka 4.1 and of what Kafka 4.2 adds."""
    return Record.load("observed.json", CASES), Record.load("observed_next.json", NEXT_CASES)
