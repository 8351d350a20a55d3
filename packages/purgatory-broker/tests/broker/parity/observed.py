"""The record of Apache Kafka's behaviour, for comparison where Kafka is not available."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.broker.parity.case import Case
from tests.broker.parity.fingerprint import KAFKA_OF_THREE_NODES, Definition, Fingerprints

FILE = Path(__file__).with_name("observed.json")
#: Of Kafka with an authorizer.
SECURED_FILE = FILE.with_name("observed_secured.json")


@dataclass
class Observed:
    """The contents of the file.

    Attributes:
        version: The observed version of Kafka.
        seen: The observations of each case.
        hashes: The fingerprint of each case when it was observed.
        started_by: The function that starts Kafka for the cases.
    """

    version: str = ""
    seen: dict[str, Any] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    started_by: Definition = KAFKA_OF_THREE_NODES

    def changed(self, cases: Iterable[Case], fingerprints: Fingerprints | None = None) -> set[str]:
        """Return the names of the cases of which nothing is kept, or something of another hash."""
        fingerprints = fingerprints or Fingerprints()
        return {
            case.name
            for case in cases
            if self.hashes.get(case.name) != fingerprints.of_case(case, self.started_by)
        }


def load(file: Path = FILE, started_by: Definition = KAFKA_OF_THREE_NODES) -> Observed:
    """Read a file; nothing is kept if there is none."""
    if not file.exists():
        return Observed(started_by=started_by)
    kept = json.loads(file.read_text())
    return Observed(kept["kafka"], kept["cases"], kept["hashes"], started_by)


def save(observed: Observed, file: Path = FILE) -> None:
    """Write a file, with a line for each part of a case, so that a difference can be read."""
    seen = ",\n".join(
        f" {json.dumps(name)}: {_lines(observed.seen[name])}" for name in sorted(observed.seen)
    )
    hashes = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(observed.hashes[name])}"
        for name in sorted(observed.hashes)
    )
    kafka = json.dumps(observed.version)
    file.write_text(f'{{"kafka": {kafka}, "cases": {{\n{seen}\n}}, "hashes": {{\n{hashes}\n}}}}\n')


def comparable(seen: Any) -> Any:
    """Return observations as they are read from the file: with string keys and lists."""
    return json.loads(json.dumps(seen))


def _lines(seen: Any) -> str:
    if isinstance(seen, dict) and seen:
        return (
            "{\n"
            + ",\n".join(
                f"  {json.dumps(str(key))}: {json.dumps(value)}" for key, value in seen.items()
            )
            + "\n }"
        )
    if isinstance(seen, list) and seen:
        return "[\n" + ",\n".join(f"  {json.dumps(each)}" for each in seen) + "\n ]"
    return json.dumps(seen)
