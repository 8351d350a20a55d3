"""The cases of share groups, and the record of what Apache Kafka does in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.broker.parity.case import Case
from tests.broker.parity.fingerprint import Fingerprints
from tests.broker.sharing.parity import group_cases, session_cases, state_cases

FILE = Path(__file__).with_name("observed.json")

CASES = {
    look.__name__: Case(look.__name__, look)
    for module in (group_cases, session_cases, state_cases)
    for look in module.CASES
}
#: What every record depends on beside its case.
EVERY_CASE = (
    ("tests.broker.parity.case", "Case"),
    ("tests.broker.sharing.parity.kafka_with_shares", "kafka_with_share_groups"),
)


@dataclass
class Record:
    """The contents of the file: Kafka's version, and the observation and the hash of each case."""

    version: str = ""
    seen: dict[str, Any] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls) -> Record:
        """Read the file, if there is one."""
        if not FILE.exists():
            return cls()
        kept = json.loads(FILE.read_text())
        return cls(kept["kafka"], kept["cases"], kept["hashes"])

    def save(self) -> None:
        """Write the file."""
        kept = {"kafka": self.version, "cases": self.seen, "hashes": self.hashes}
        FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")

    def changed(self) -> set[str]:
        """Return the cases of which nothing is kept, or something of another hash."""
        fingerprints = Fingerprints()
        return {
            name
            for name, case in CASES.items()
            if self.hashes.get(name)
            != fingerprints.of((case.look.__module__, case.look.__name__), *EVERY_CASE)
        }
