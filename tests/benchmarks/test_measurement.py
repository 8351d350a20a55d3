"""The runner and the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import peers, published, timer_add, timer_cycle
from benchmarks.__main__ import main
from benchmarks.measurement import Runner, Step, metric_values
from benchmarks.question import Case, JvmCall

_UNITS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}


class FakeJvm:
    """JVM peers whose processes run Python code."""

    versions: Mapping[str, str] = {}

    def __init__(self, code: str) -> None:
        self.code = code
        self.calls: list[tuple[str, str, dict[str, object]]] = []

    def command(self, question: str, side: str, params: Mapping[str, object]) -> list[str]:
        """Return a command that runs the code."""
        self.calls.append((question, side, dict(params)))
        return [sys.executable, "-c", self.code]


def kafka_step(case: Case) -> Step:
    """Return a step of timer_cycle for Kafka."""
    return Step(timer_cycle, peers.KAFKA, case, 0)


def test_variant_of_a_jvm_side_is_a_parameter_of_it():
    jvm = FakeJvm("print('{\"enqueue_rate\": 1.0}')")
    case = Case({"case": "low", "rate": 0, "count": 9}, 0)
    steps = [Step(published, side, case, 0) for side in (peers.KAFKA, peers.KAFKA_LIST_QUEUE)]
    runner = Runner(jvm)
    assert [one.side for step in steps for one in runner.run(step)] == [step.side for step in steps]
    assert jvm.calls == [
        ("published", peers.KAFKA, dict(case.params)),
        ("published", peers.KAFKA, {**case.params, "queue": "list"}),
    ]


def test_sides_take_turns_within_a_round_and_every_other_round_is_reversed(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(
        timer_cycle, "cases", lambda quick: [Case({"pending": 1}, 1), Case({"pending": 2}, 2)]
    )
    steps = Runner("no JVM").plan(
        [timer_cycle], sides={peers.OURS, peers.HEAPQ}, rounds=2, quick=True
    )
    assert [(step.round, step.case.size, step.side) for step in steps] == [
        (0, 1, peers.OURS),
        (0, 1, peers.HEAPQ),
        (0, 2, peers.OURS),
        (0, 2, peers.HEAPQ),
        (1, 1, peers.HEAPQ),
        (1, 1, peers.OURS),
        (1, 2, peers.HEAPQ),
        (1, 2, peers.OURS),
    ]


def test_skipped_cases_are_recorded_with_their_reason():
    runner = Runner("no JVM")
    steps = runner.plan([timer_add], sides={peers.KAFKA, peers.THREADING}, rounds=1, quick=True)
    assert [step.case.size for step in steps] == [1_000]
    reasons = {(one.side, one.case): one.reason for one in runner.not_measured}
    assert reasons[peers.KAFKA, "count=1000"] == "no JVM"
    assert reasons[peers.THREADING, "count=10000"] == peers.TOO_MANY_THREADS
    assert not any(one.failed for one in runner.not_measured)


def test_value_of_the_jvm_is_recorded():
    jvm = FakeJvm('print(\'{"ns_per_operation": 41.5, "other": 1}\')')
    case = Case({"pending": 10}, 10.0, JvmCall("timer_cycle", {"pending": 10, "operations": 5}))
    (value,) = Runner(jvm).run(kafka_step(case))
    assert jvm.calls == [("timer_cycle", "kafka", {"pending": 10, "operations": 5})]
    assert json.loads(value.to_json()) == {
        "question": "timer_cycle",
        "side": "kafka",
        "case": "pending=10",
        "size": 10.0,
        "metric": "ns_per_operation",
        "unit": "ns",
        "round": 0,
        "value": 41.5,
    }


def test_exit_code_3_means_not_applicable_and_others_mean_failure():
    for code, failed in ((3, False), (1, True)):
        runner = Runner(
            FakeJvm(f"import sys; print('the reason', file=sys.stderr); sys.exit({code})")
        )
        step = kafka_step(Case({"pending": 10}, 10.0))
        assert list(runner.run(step)) == []
        assert list(runner.run(step)) == []
        assert [(one.reason, one.failed) for one in runner.not_measured] == [("the reason", failed)]


def test_process_that_does_not_end_has_failed():
    runner = Runner(FakeJvm("import threading; threading.Event().wait()"), timeout_s=0.2)
    assert list(runner.run(kafka_step(Case({"pending": 10}, 10.0)))) == []
    assert [(one.reason, one.failed) for one in runner.not_measured] == [
        ("took longer than 0 s", True)
    ]


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no JSON",
        "[1]",
        "7",
        '{"cpu_ns_per_operation": 1}',
        '{"ns_per_operation": "1"}',
        '{"ns_per_operation": NaN}',
        '{"ns_per_operation": true}',
        '{"ns_per_operation": Infinity}',
    ],
)
def test_output_without_a_finite_number_is_rejected(output: str):
    with pytest.raises(ValueError, match="ns_per_operation"):
        metric_values(output, _UNITS)


def test_only_the_last_line_of_the_output_counts():
    assert metric_values('hello\n{"ns_per_operation": 2}\n', _UNITS) == {"ns_per_operation": 2.0}


def test_failing_worker_is_reported_and_the_run_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(
        timer_add,
        "cases",
        lambda quick: [Case({"no_such_parameter": 1}, 1), Case({"count": 100}, 100)],
    )
    assert main(["timer_add", "--quick", "--sides", "heapq", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "failed:" in printed
    assert "unexpected keyword argument 'no_such_parameter'" in printed
    values = [
        json.loads(line) for line in (tmp_path / "measurements.jsonl").read_text().splitlines()
    ]
    assert [(value["case"], value["round"]) for value in values] == [
        ("count=100", 0),
        ("count=100", 1),
    ]
    (not_measured,) = [
        json.loads(line) for line in (tmp_path / "not_measured.jsonl").read_text().splitlines()
    ]
    assert not_measured["failed"]
    assert not_measured["case"] == "no_such_parameter=1"


def test_machine_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timer_add, "cases", lambda quick: [Case({"count": 10}, 10)])
    assert (
        main(["timer_add", "--rounds", "1", "--sides", "heapq,sched", "--out", str(tmp_path)]) == 0
    )
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert machine["rounds"] == 1
    assert machine["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "request_purgatory_compiled" in machine
    assert machine["versions"]["heapq"].startswith("Python")
