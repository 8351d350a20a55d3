"""Observe Apache Kafka, and save the records: `python -m tests.broker.sharing.parity.observe`.

With names of cases, only those are observed. Kafka has the feature `share.version` at level 1.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from tests.broker.kafka_server import NEXT_VERSION, VERSION, KafkaCluster
from tests.broker.parity.fingerprint import Fingerprints
from tests.broker.sharing.parity.kafka_with_shares import kafka_with_share_groups, next_kafka
from tests.broker.sharing.parity.record import EVERY_CASE, Record, load_records


def main() -> None:
    """Run the command."""
    names = sys.argv[1:]
    present, following = load_records()
    with tempfile.TemporaryDirectory() as folder:
        for record, version, kafka in (
            (present, VERSION, kafka_with_share_groups),
            (following, NEXT_VERSION, next_kafka),
        ):
            wanted = [name for name in record.cases if not names or name in names]
            if wanted:
                data = Path(folder, version)
                data.mkdir()
                _observe(record, version, wanted, kafka(data))


def _observe(
    record: Record, version: str, names: list[str], kafka: AbstractContextManager[KafkaCluster]
) -> None:
    fingerprints = Fingerprints()
    with kafka as cluster:
        for name in names:
            case = record.cases[name]
            record.seen[name], said = case.observe(cluster)
            record.hashes[name] = fingerprints.of(
                (case.look.__module__, case.look.__name__), *EVERY_CASE
            )
            record.version = version
            record.save()
            print(name, *dict.fromkeys(said), sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
