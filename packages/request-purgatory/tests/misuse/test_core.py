"""Every wrong call of the core's public interface: a documented error, and no harm done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.misuse.builds import COMPILED, INTERPRETED, Outcomes, observe
from tests.misuse.differences import is_meant
from tests.misuse.outcomes import Outcome
from tests.misuse.subjects import PARTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.xdist_group("misuse"),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcomes]:
    """Return the outcomes of all calls on all builds."""
    return observe(tmp_path_factory.mktemp("builds"))


@pytest.fixture(params=[COMPILED, INTERPRETED])
def table(request: pytest.FixtureRequest, outcomes: dict[str, Outcomes]) -> Outcomes:
    """Return the outcomes of one build."""
    if request.param not in outcomes:
        pytest.skip("the core is not compiled")
    return outcomes[request.param]


def is_of_a_part(call: str) -> bool:
    return call.split(".")[0] in PARTS


def findings(table: Outcomes, is_wrong: Callable[[str, Outcome], object]) -> str:
    """Return the wrong outcomes as lines, those of one argument in one line."""
    values: dict[str, list[str]] = defaultdict(list)
    for call, outcome in table.items():
        if is_wrong(call, outcome):
            target, _, value = call.partition("=")
            values[f"{target}: {outcome.kind} {outcome.damage}"].append(value.rstrip(")"))
    return "\n".join(f"{line} {', '.join(found)}" for line, found in values.items())


def test_no_call_ends_or_hangs_the_process(table: Outcomes) -> None:
    assert not findings(table, lambda _, outcome: outcome.ended_process)


def test_no_call_leaves_damage(table: Outcomes) -> None:
    assert not findings(table, lambda _, outcome: outcome.damage)


def test_every_error_is_a_documented_one(table: Outcomes) -> None:
    assert not findings(
        table,
        lambda call, outcome: (
            not outcome.is_documented
            and not outcome.ended_process
            and not is_of_a_part(call)
            and not is_meant(call)
        ),
    )


def test_builds_agree(outcomes: dict[str, Outcomes]) -> None:
    if COMPILED not in outcomes:
        pytest.skip("the core is not compiled")
    compiled, interpreted = outcomes[COMPILED], outcomes[INTERPRETED]

    def differs(call: str, outcome: Outcome) -> bool:
        if is_of_a_part(call) or is_meant(call) or outcome.ended_process:
            return False
        if call in compiled and call in interpreted:
            return compiled[call].kind != interpreted[call].kind
        return call.endswith(")")  # The builds have the same methods, and fields of their own.

    assert not findings(compiled, differs)
    assert not findings(interpreted, differs)
