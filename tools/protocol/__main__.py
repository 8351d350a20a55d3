"""Writes the modules of `purgatory_broker._wire.protocol` from Kafka's schemas."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tools.protocol.python_code import module
from tools.protocol.schema import load_message, snake_case

_HERE = Path(__file__).parent
_REPOSITORY = _HERE.parents[1]
MODULES = _REPOSITORY / "packages/purgatory-broker/src/purgatory_broker/_wire/protocol"
_FOLDER = "common/message/"
#: The APIs whose messages are made.
APIS = (
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterShareGroupOffsets",
    "AlterUserScramCredentials",
    "ApiVersions",
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "CreateAcls",
    "CreatePartitions",
    "CreateTopics",
    "DeleteAcls",
    "DeleteGroups",
    "DeleteRecords",
    "DeleteShareGroupOffsets",
    "DeleteShareGroupState",
    "DeleteTopics",
    "DescribeAcls",
    "DescribeClientQuotas",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeQuorum",
    "DescribeShareGroupOffsets",
    "DescribeTopicPartitions",
    "DescribeTransactions",
    "DescribeUserScramCredentials",
    "ElectLeaders",
    "EndTxn",
    "Fetch",
    "FindCoordinator",
    "GetTelemetrySubscriptions",
    "Heartbeat",
    "IncrementalAlterConfigs",
    "InitProducerId",
    "InitializeShareGroupState",
    "JoinGroup",
    "LeaveGroup",
    "ListConfigResources",
    "ListGroups",
    "ListOffsets",
    "ListPartitionReassignments",
    "ListTransactions",
    "Metadata",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
    "Produce",
    "PushTelemetry",
    "ReadShareGroupState",
    "ReadShareGroupStateSummary",
    "SaslAuthenticate",
    "SaslHandshake",
    "ShareAcknowledge",
    "ShareFetch",
    "ShareGroupDescribe",
    "ShareGroupHeartbeat",
    "SyncGroup",
    "TxnOffsetCommit",
    "WriteShareGroupState",
    "WriteTxnMarkers",
)
#: Those of them that are served with versions of the next release, and come from its jar.
NEXT_APIS = frozenset({"ShareAcknowledge", "ShareFetch"})


def made_modules(jar: Path, next_jar: Path) -> dict[str, str]:
    """Return the text of each module by its name, from the schemas in two jars of the client."""
    overrides = tomllib.loads((_HERE / "overrides.toml").read_text())
    modules = {}
    with zipfile.ZipFile(jar) as present, zipfile.ZipFile(next_jar) as following:
        for api in APIS:
            path, archive = (next_jar, following) if api in NEXT_APIS else (jar, present)
            request, response = (
                load_message(archive.read(f"{_FOLDER}{api}{kind}.json").decode())
                for kind in ("Request", "Response")
            )
            kafka = path.stem.removeprefix("kafka-clients-")
            text = module(request, response, overrides.get(api, {}), kafka)
            modules[f"{snake_case(api)}.py"] = _formatted(text, f"{snake_case(api)}.py")
    return modules


def _formatted(text: str, name: str) -> str:
    """Remove what is not used, and format."""
    # The copy of the interpreter's environment, which need not be on the path.
    ruff = Path(sys.executable).with_name("ruff")
    path = str(MODULES / name)
    for arguments in (
        (
            "check",
            "--fix-only",
            "--quiet",
            "--select",
            "F401,I001,UP",
            "--stdin-filename",
            path,
            "-",
        ),
        ("format", "--quiet", "--stdin-filename", path, "-"),
    ):
        text = subprocess.run(
            [ruff, *arguments], input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.protocol", description=__doc__)
    parser.add_argument("jar", type=Path, help="kafka-clients-VERSION.jar")
    parser.add_argument("next_jar", type=Path, help="that of the next release, for NEXT_APIS")
    parser.add_argument("--check", action="store_true", help="fail if a module would change")
    arguments = parser.parse_args()
    modules = made_modules(arguments.jar, arguments.next_jar)
    present = {path.name for path in MODULES.glob("*.py")} - {"__init__.py"}
    changed = sorted(
        name
        for name, text in modules.items()
        if name not in present or (MODULES / name).read_text() != text
    )
    stale = sorted(present - modules.keys())
    print("changed:", ", ".join(changed) or "nothing", *(f"stale: {name}" for name in stale))
    if arguments.check:
        return int(bool(changed or stale))
    for name in changed:
        (MODULES / name).write_text(modules[name])
    for name in stale:
        (MODULES / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
