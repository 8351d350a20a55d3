"""Looks at real Kafka and keeps what there is to see: `python -m tests.broker.parity.observe`.

With names of cases, those alone are looked at anew. `--messages` prints Kafka's error messages, which are not kept.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.broker.kafka_server import VERSION
from tests.broker.parity import observed
from tests.broker.parity.cases import all_cases
from tests.broker.parity.real import kafka_of_three_nodes


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="all, if none is named")
    parser.add_argument("--messages", action="store_true", help="print the error messages")
    asked = parser.parse_args()
    seen = observed.load()[1] if asked.cases and observed.FILE.exists() else {}
    with tempfile.TemporaryDirectory() as folder, kafka_of_three_nodes(Path(folder)) as kafka:
        for case in all_cases():
            if not asked.cases or case.name in asked.cases:
                seen[case.name], said = case.observe(kafka)
                print(case.name, flush=True)
                if asked.messages:
                    for each in dict.fromkeys(said):
                        print(f"    {each}")
    observed.save(VERSION, {case.name: seen[case.name] for case in all_cases()})


if __name__ == "__main__":
    main()
