"""Output folders appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from request_purgatory.pipeline.traces.output_folder import (
    OutputExistsError,
    output_folder,
    read_json,
    write_json,
)


def make(target: Path, content: str, *, replace: bool = False) -> None:
    """An output with one file."""
    with output_folder(target, replace=replace) as folder:
        (folder / "file").write_text(content)


def test_folder_is_at_its_place_only_after_the_block(tmp_path: Path) -> None:
    """Meanwhile it is beside it, hidden; its parents are made."""
    target = tmp_path / "a" / "b"
    with output_folder(target) as folder:
        assert not target.exists()
        assert folder.parent == target.parent
        (folder / "file").write_text("whole")
    assert (target / "file").read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["b"]


def test_failure_leaves_an_earlier_output_as_it_was(tmp_path: Path) -> None:
    """And nothing of the failed one."""
    target = tmp_path / "out"
    make(target, "earlier")

    def fail_half_way() -> None:
        with output_folder(target, replace=True) as folder:
            (folder / "file").write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert (target / "file").read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_existing_output_is_replaced_only_on_request(tmp_path: Path) -> None:
    """The message names the folder and the way out."""
    target = tmp_path / "out"
    make(target, "earlier")
    with (
        pytest.raises(
            OutputExistsError, match=r"out exists already: choose another --out, or --force"
        ),
        output_folder(target),
    ):
        pytest.fail("the block must not run")
    make(target, "later", replace=True)
    assert (target / "file").read_text() == "later"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folder_that_purgatory_did_not_make_is_never_replaced(tmp_path: Path) -> None:
    """A slip of the keyboard must not cost somebody's documents."""
    target = tmp_path / "documents"
    target.mkdir()
    (target / "thesis").write_text("years of work")
    with pytest.raises(OutputExistsError, match="was not made by purgatory"):
        make(target, "later", replace=True)
    assert (target / "thesis").read_text() == "years of work"


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Letters of all alphabets too."""
    write_json(tmp_path / "a.json", {"name": "Пургаторий", "rows": [1, 2.5, None]})
    assert read_json(tmp_path / "a.json") == {"name": "Пургаторий", "rows": [1, 2.5, None]}
