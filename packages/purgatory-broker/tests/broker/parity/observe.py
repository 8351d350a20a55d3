"""Observe Apache Kafka, and save the record: `python -m tests.broker.parity.observe`.

// With names of cases, only those are observed; with `--changed`, those whose hash differs from the
record's. `--messages` prints Kafka's error messages, which are not recorded.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.broker.kafka_server import VERSION, KafkaCluster
from tests.broker.parity import observed
from tests.broker.parity.case import Case
from tests.broker.parity.cases import all_cases, secured_cases
from tests.broker.parity.fingerprint import Fingerprints
from tests.broker.parity.real import kafka_of_three_nodes
from tests.broker.parity.secured import secured_kafka


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="all, if none is named")
    parser.add_argument("--changed", action="store_true", help="those alone that changed")
    parser.add_argument("--messages", action="store_true", help="print the error messages")
    options = parser.parse_args()
    plain = {case.name: case for case in all_cases()}
    secured = {case.name: case for case in secured_cases()}
    if unknown := set(options.cases) - plain.keys() - secured.keys():
        parser.error(f"no such cases: {', '.join(sorted(unknown))}")
    for cases, start, file in (
        (plain, kafka_of_three_nodes, observed.FILE),
        (secured, secured_kafka, observed.SECURED_FILE),
    ):
        started_by = (start.__module__, start.__name__)
        kept = observed.load(file, started_by)
        wanted = cases.keys() & set(options.cases)
        if options.changed:
            wanted |= kept.changed(cases.values())
        elif not options.cases:
            wanted = set(cases)
        if wanted:
            _observe(kept, cases, wanted, start, messages=options.messages)
            observed.save(kept, file)
        else:
            print(f"{file.name}: nothing to do")


def _observe(
    kept: observed.Observed,
    cases: dict[str, Case],
    wanted: set[str],
    start: Callable[[Path], AbstractContextManager[KafkaCluster]],
    *,
    messages: bool,
) -> None:
    fingerprints = Fingerprints()
    with tempfile.TemporaryDirectory() as folder, start(Path(folder)) as kafka:
        for name in filter(wanted.__contains__, cases):
            kept.seen[name], said = cases[name].observe(kafka)
            kept.hashes[name] = fingerprints.of_case(cases[name], kept.started_by)
            print(name, flush=True)
            if messages:
                for each in dict.fromkeys(said):
                    print(f"    {each}")
    for gone in set(kept.seen) - set(cases):
        del kept.seen[gone], kept.hashes[gone]
    kept.version = VERSION


if __name__ == "__main__":
    main()
