"""Observe Apache Kafka, and save the record: `python -m tests.broker.sharing.parity.observe`.

With names of cases, only those are observed. Kafka has the feature `share.version` at level 1.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.broker.kafka_server import VERSION
from tests.broker.parity.fingerprint import Fingerprints
from tests.broker.sharing.parity.kafka_with_shares import kafka_with_share_groups
from tests.broker.sharing.parity.record import CASES, EVERY_CASE, Record


def main() -> None:
    """Run the command."""
    wanted = sys.argv[1:] or list(CASES)
    record = Record.load()
    fingerprints = Fingerprints()
    with tempfile.TemporaryDirectory() as folder, kafka_with_share_groups(Path(folder)) as kafka:
        for name in wanted:
            case = CASES[name]
            record.seen[name], said = case.observe(kafka)
            record.hashes[name] = fingerprints.of(
                (case.look.__module__, case.look.__name__), *EVERY_CASE
            )
            record.version = VERSION
            record.save()
            print(name, *dict.fromkeys(said), sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
