"""Observe Apache Kafka, and save the record: `python -m tests.broker.parity.observe`.

// With names of cases, only those are observed; with `--changed`, those whose hash differs from the
record's. `--messages` prints Kafka's error messages, which are not recorded.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.broker.kafka_server import VERSION
from tests.broker.parity import observed
from tests.broker.parity.cases import all_cases
from tests.broker.parity.fingerprint import Fingerprints
from tests.broker.parity.real import kafka_of_three_nodes


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="all, if none is named")
    parser.add_argument("--changed", action="store_true", help="those alone that changed")
    parser.add_argument("--messages", action="store_true", help="print the error messages")
    options = parser.parse_args()
    cases = {case.name: case for case in all_cases()}
    if unknown := set(options.cases) - set(cases):
        parser.error(f"no such cases: {', '.join(sorted(unknown))}")
    kept = observed.load() if observed.FILE.exists() else observed.Observed()
    wanted = set(options.cases)
    if options.changed:
        wanted |= kept.changed(cases.values())
    elif not wanted:
        wanted = set(cases)
    if not wanted:
        print("nothing changed")
        return
    fingerprints = Fingerprints()
    with tempfile.TemporaryDirectory() as folder, kafka_of_three_nodes(Path(folder)) as kafka:
        for name in filter(wanted.__contains__, cases):
            kept.seen[name], said = cases[name].observe(kafka)
            kept.hashes[name] = fingerprints.of_case(cases[name])
            print(name, flush=True)
            if options.messages:
                for each in dict.fromkeys(said):
                    print(f"    {each}")
    for gone in set(kept.seen) - set(cases):
        del kept.seen[gone], kept.hashes[gone]
    kept.version = VERSION
    observed.save(kept)


if __name__ == "__main__":
    main()
