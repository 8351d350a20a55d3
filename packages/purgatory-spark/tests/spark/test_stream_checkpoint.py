"""What a stream notes in its checkpoint, and with which settings it goes on from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from purgatory_spark._stream.checkpoint import (
    CLOCK_TICKS,
    FOLDER_TICKS,
    CheckpointError,
    require_compatible_checkpoint,
)
from purgatory_spark._stream.state.layout import STATE_VERSION
from purgatory_spark.stream import StreamSettings


def test_checkpoint_is_resumed_only_with_compatible_settings(tmp_path: Path) -> None:
    endpoints = {"requests": "/in"}
    require_compatible_checkpoint(tmp_path / "checkpoint", StreamSettings(), endpoints)
    require_compatible_checkpoint(
        tmp_path / "checkpoint", StreamSettings(watermark_delay_ms=5, key_retention_ms=7), endpoints
    )
    with pytest.raises(
        CheckpointError,
        match="it was made with shards=16, not 8; it was made with route=host, not key",
    ):
        require_compatible_checkpoint(
            tmp_path / "checkpoint", StreamSettings(shards=8, route="key"), endpoints
        )
    with pytest.raises(CheckpointError, match="it was made with requests '/in', not '/other'"):
        require_compatible_checkpoint(
            tmp_path / "checkpoint", StreamSettings(), {"requests": "/other"}
        )
    file = tmp_path / "checkpoint" / "purgatory-stream.json"
    # Checkpoints on disk have these names, even if the settings are renamed.
    recorded = {"shards", "route", "delay_ms", "remember_ms", "max_shard_mb"}
    assert set(json.loads(file.read_text())["settings"]) == recorded
    for unreadable in (1, STATE_VERSION + 1):
        record = json.loads(file.read_text()) | {"state_version": unreadable}
        file.write_text(json.dumps(record))
        with pytest.raises(
            CheckpointError,
            match=f"its state has layout {unreadable}, and this version reads 2 to {STATE_VERSION}",
        ):
            require_compatible_checkpoint(tmp_path / "checkpoint", StreamSettings(), endpoints)
        assert json.loads(file.read_text()) == record
    # Of an earlier layout that can be read: from now on the state has both.
    file.write_text(json.dumps(record | {"state_version": 2}))
    require_compatible_checkpoint(tmp_path / "checkpoint", StreamSettings(), endpoints)
    assert json.loads(file.read_text())["state_version"] == STATE_VERSION
    # What is not recorded was so before it was.
    assert json.loads(file.read_text())["even_shards"] is True
    record = {name: value for name, value in record.items() if name != "even_shards"}
    for _ in range(2):
        file.write_text(json.dumps(record | {"state_version": 3}))
        assert not require_compatible_checkpoint(
            tmp_path / "checkpoint", StreamSettings(), endpoints
        )
        record = json.loads(file.read_text())
    file.write_text("{")
    with pytest.raises(CheckpointError, match=r"purgatory-stream\.json: damaged"):
        require_compatible_checkpoint(tmp_path / "checkpoint", StreamSettings(), endpoints)


def test_checkpoint_without_idle_timeout_is_not_resumed_with_one(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    require_compatible_checkpoint(folder, StreamSettings(), {"ticks": FOLDER_TICKS})
    with pytest.raises(CheckpointError, match="it was made without an idle timeout"):
        require_compatible_checkpoint(folder, StreamSettings(), {"ticks": CLOCK_TICKS})


def test_other_folder_is_refused_as_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(CheckpointError, match="not a checkpoint of a purgatory stream, and not"):
        require_compatible_checkpoint(tmp_path, StreamSettings(), {})
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("metadata", "", "nothing in it"),
        ("metadata", '{"id', "Unterminated string"),
        ("offsets/10", "", "nothing in it"),
        ("offsets/10", '{"id', "no version in its first line"),
        ("commits/7", "v1", "nothing in it"),
        ("commits/7", 'v1\n{"x', "Unterminated string"),
    ],
)
def test_torn_file_of_sparks_is_named(tmp_path: Path, name: str, content: str, reason: str) -> None:
    folder = tmp_path / "checkpoint"
    require_compatible_checkpoint(folder, StreamSettings(), {})
    good = {"metadata": '{"id":"x"}', "offsets/9": "", "offsets/10": 'v1\n{}\n-\n{"logOffset":0}'}
    for file, text in (good | {"commits/7": 'v1\n{"next":0}', "offsets/.11.crc": "x"}).items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    require_compatible_checkpoint(folder, StreamSettings(), {})
    (folder / name).write_text(content)
    with pytest.raises(CheckpointError, match=rf"{name}: damaged, .*{reason}.*; restore the file"):
        require_compatible_checkpoint(folder, StreamSettings(), {})
