"""Run the example notebook, and store it with its outputs: `python -m tools.notebook_outputs`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "which_timeout.ipynb"
_FRAME = re.compile("<iframe.*?</iframe>", re.DOTALL)


def main() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"metadata": {"path": folder}}
        # Without times, which differ from run to run.
        NotebookClient(notebook, timeout=600, record_timing=False, resources=settings).execute()
    for cell in notebook.cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = [_stored(each) for each in cell["outputs"] if "data" in each]
    notebook["metadata"]["language_info"] = {"name": "python"}
    nbformat.write(notebook, NOTEBOOK)


def _stored(output: Any) -> Any:
    """Return an output without charts, whose scripts do not run where a notebook is only shown."""
    data = output["data"]
    if "text/html" in data:
        data["text/html"] = _FRAME.sub("", data["text/html"])
    return output


if __name__ == "__main__":
    main()
