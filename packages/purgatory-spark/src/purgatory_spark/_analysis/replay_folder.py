"""Replay folders, the output of `purgatory replay`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._outcomes.replay import DESIGN_NUMBER, HOSTS, ReplaySettings, replay_designs
from purgatory_spark._outcomes.results import outcomes_of, reject_counts, require_no_rejects
from purgatory_spark._output_folder import write_json
from purgatory_spark._rows.host_sizes import MAX_WORKER_MB, REPLAY
from purgatory_spark._rows.schema import OUTCOMES
from purgatory_spark._spark.concurrent_jobs import concurrent_jobs
from purgatory_spark._spark.job_names import names_jobs
from purgatory_spark._spark.session import session_for
from purgatory_spark._spark.spark_tables import read_spark_table, write_spark_table
from purgatory_spark._spark.workers import require_workers
from purgatory_spark._traces.manifest import read_manifest
from purgatory_spark._traces.trace_folder import TraceFolder

_MANIFEST = "replay.json"


@dataclass(frozen=True)
class ReplayFolder:
    """A replay on disk.

    The folder has two Parquet tables, `outcomes/` (`schema.OUTCOMES` and `late_ms`) and `hosts/`
    (`host` and `replay.HOSTS`), and the purgatory's settings in `replay.json`.
    """

    path: Path
    label: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return read_manifest(
            self.path, "a replay folder", _MANIFEST, "make one with `purgatory replay`"
        )

    @property
    def name(self) -> str:
        """The label, or the purgatory's design if there is none."""
        return self.label or str(self.settings["design"])

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        return read_spark_table(spark, self.path / name)


def replay_trace(
    spark: SparkSession,
    trace: TraceFolder,
    settings: ReplaySettings,
    target: Path,
    max_worker_mb: int = MAX_WORKER_MB,
) -> ReplayFolder:
    (folder,) = replay_trace_in_designs(spark, trace, {target: settings}, max_worker_mb)
    return folder


@names_jobs("replay a trace")
def replay_trace_in_designs(
    spark: SparkSession,
    trace: TraceFolder,
    designs: Mapping[Path, ReplaySettings],
    max_worker_mb: int = MAX_WORKER_MB,
) -> list[ReplayFolder]:
    """Replay a trace through several purgatories, reading it once, and write the replay folders."""
    trace.require_requests()
    with session_for(spark, trace.row_count) as own:
        trace.require_hosts_fit(own, REPLAY, max_worker_mb)
        replayed = replay_designs(trace.requests(own), trace.events(own), list(designs.values()))
        return write_replays(
            replayed, {folder: settings.parameters() for folder, settings in designs.items()}
        )


def write_replays(
    replayed: DataFrame, settings: Mapping[Path, dict[str, Any]]
) -> list[ReplayFolder]:
    """Compute the replays of several designs, and write each to a folder of its own."""
    for target in settings:
        require_workers(replayed.sparkSession, target)
    # The replay runs once, for all tables. Its rows do not have to stay in memory for that.
    replayed = replayed.persist(StorageLevel.DISK_ONLY)
    rejects = Observation()
    observed = replayed.observe(rejects, *reject_counts())
    with concurrent_jobs(replayed.sparkSession) as start:
        for number, target in enumerate(settings):
            is_of_design = F.col(DESIGN_NUMBER) == number
            # An observation counts in one query only.
            outcomes = outcomes_of(replayed if number else observed).where(is_of_design)
            step = start(
                write_spark_table,
                outcomes.select(*OUTCOMES.names, "late_ms"),
                target / "outcomes",
            )
            if not number:
                step.result()  # The others read what it has persisted.
            hosts = replayed.where(is_of_design & (F.col("kind") == "hosts"))
            hosts = hosts.select("host", "stats.*").select("host", *HOSTS.names)
            start(write_spark_table, hosts, target / "hosts")
    replayed.unpersist()
    require_no_rejects(rejects.get, "the replayed trace")
    for target, of_design in settings.items():
        write_json(target / _MANIFEST, of_design)
    return [ReplayFolder(target) for target in settings]


def label_replays(replays: list[ReplayFolder]) -> list[ReplayFolder]:
    """Give each replay a label that no other one has.

    A label is the design, followed by the settings in which replays of that design differ, and by a
    number where the settings are equal: `wheel tick_ms=1`, `wheel tick_ms=5`, `wheel tick_ms=5 #2`.
    """
    labels: list[str] = []
    labelled = []
    for replay in replays:
        settings = replay.settings
        same_design = [
            other.settings for other in replays if other.settings["design"] == settings["design"]
        ]
        differing = [
            key for key in settings if any(other[key] != settings[key] for other in same_design)
        ]
        label = " ".join([settings["design"], *[f"{key}={settings[key]}" for key in differing]])
        labels.append(label)
        number = labels.count(label)
        labelled.append(ReplayFolder(replay.path, label if number == 1 else f"{label} #{number}"))
    return labelled
