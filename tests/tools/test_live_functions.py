"""Functions that a mutant's code is put into."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULE = """\
class Timer:
    @property
    def size(self):
        return 1
"""
#: In a process of its own: the tests' session has frozen objects that have to stay so.
PROGRAM = """\
import gc
from pathlib import Path
import sized
from tools.mutants.live_functions import LiveFunctions

gc.freeze()
functions = LiveFunctions()
mutant = compile(Path(sized.__file__).read_text().replace("1", "2"), sized.__file__, "exec")
print(sized.Timer().size, functions.put(mutant), sized.Timer().size, functions.put(mutant))
"""


def test_functions_that_the_collector_was_told_to_leave_out_get_a_mutants_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "sized.py").write_text(MODULE, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout == "1 True 2 False\n"
