"""What a stream's checkpoint was made with, so that it is not gone on with in another way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from request_purgatory.pipeline.stream.job import StreamSettings
from request_purgatory.pipeline.stream.state.store import STATE_VERSION
from request_purgatory.pipeline.traces.output_folder import read_json, write_json

_FILE = "purgatory-stream.json"
#: Where a request's state is follows from these; the others may change from one start to the next.
_FIXED = ("shards", "route")


class CheckpointError(ValueError):
    """A checkpoint that can't be gone on with as asked; nothing was read or written."""


def require_same(folder: Path, settings: StreamSettings, endpoints: dict[str, Any]) -> None:
    """See that a checkpoint, if there is one, was made with these settings, and note them.

    Args:
        folder: the checkpoint's, made if it is not there.
        endpoints: where the stream reads and writes.

    Raises:
        CheckpointError: it was made with another number of shards, another route, by a version that
            keeps its state otherwise, or for other inputs or outputs; or it is none of ours.
    """
    file = folder / _FILE
    asked = {
        "state_version": STATE_VERSION,
        "settings": settings.parameters(),
        "endpoints": endpoints,
    }
    if file.exists():
        try:
            made: dict[str, Any] = read_json(file)
        except ValueError as error:
            raise CheckpointError(
                f"{file}: damaged, not the JSON that was written ({error})"
            ) from error
        _compare(folder, made, asked)
    elif folder.is_dir() and any(folder.iterdir()):
        raise CheckpointError(
            f"{folder}: no checkpoint of a purgatory stream, and not empty; choose another --checkpoint"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, asked)


def _compare(folder: Path, made: dict[str, Any], asked: dict[str, Any]) -> None:
    differences = []
    if made["state_version"] != asked["state_version"]:
        differences.append(
            f"its state has layout {made['state_version']}, and this version reads {asked['state_version']}"
        )
    for name in _FIXED:
        before, now = made["settings"][name], asked["settings"][name]
        if before != now:
            differences.append(f"it was made with {name}={before}, not {now}")
    for name, now in asked["endpoints"].items():
        before = made["endpoints"].get(name)
        if before != now:
            differences.append(f"its {name} was {before}, not {now}")
    if differences:
        raise CheckpointError(
            f"{folder}: can't be gone on with: {'; '.join(differences)}. Start with what it was made with, or anew with another "
            "--checkpoint and --out"
        )
