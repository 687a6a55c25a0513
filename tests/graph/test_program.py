"""Which program a job is: its script, its arguments and its graph."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from beadline.graph.plan import Plan
from beadline.graph.program import graph_digest, this_program
from beadline.graph.specs import Broadcast, Rebalance
from tests.graph.programs import Program, by, same


def plan(change: str = "", parallelism: int = 2) -> Plan:
    program = Program()
    source = program.source(uid="numbers")
    mapped = program.function("map", same, source, name="twice" if change == "renamed" else "double")
    if change == "one more":
        mapped = program.map(mapped)
    shape = "reduce" if change == "another kind" else "process"
    kept = program.function(
        shape, max, (mapped, by(same)), name="other" if change == "renamed with uid" else "sums", uid="sums"
    )
    if change == "another uid":
        kept.uid = "totals"
    target: Any = (kept, Broadcast()) if change == "another way" else kept
    program.collect(target)
    return program.plan(parallelism=parallelism)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_graph_does_not_depend_on_the_parallelism(parallelism: int) -> None:
    assert graph_digest(plan(parallelism=parallelism)) == graph_digest(plan())


def test_neither_does_it_depend_on_exchanges_that_come_with_the_parallelism() -> None:
    def with_sink_of(parallelism: int) -> Plan:
        program = Program()
        program.collect(program.source(uid="numbers"), parallelism=parallelism)
        return program.plan(parallelism=2)

    narrow, wide = with_sink_of(1), with_sink_of(2)
    assert isinstance(narrow.edges[0].partitioning, Rebalance)
    assert not isinstance(wide.edges[0].partitioning, Rebalance)
    assert graph_digest(narrow) == graph_digest(wide)


@pytest.mark.parametrize("change", ["renamed", "one more", "another kind", "another uid", "another way"])
def test_it_depends_on_the_operators_and_how_they_are_connected(change: str) -> None:
    assert graph_digest(plan(change)) != graph_digest(plan())


def test_the_name_of_an_operator_with_a_uid_is_only_a_label() -> None:
    assert graph_digest(plan("renamed with uid")) == graph_digest(plan())


def main_module(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    main = ModuleType("__main__")
    for name, value in attributes.items():
        setattr(main, name, value)
    monkeypatch.setitem(sys.modules, "__main__", main)


def test_the_script_is_a_file_wherever_it_is_called_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "link.py").symlink_to(tmp_path / "job.py")
    monkeypatch.setattr(sys, "argv", ["job.py", "--topic", "a b"])
    monkeypatch.chdir(tmp_path)
    for file in ("job.py", str(tmp_path / "job.py"), "./link.py"):
        main_module(monkeypatch, __file__=file, __spec__=None)
        program = this_program(plan())
        assert (program.script, program.arguments) == (str((tmp_path / "job.py").resolve()), ("--topic", "a b"))
        assert program.graph == graph_digest(plan())
    assert str(program).endswith("/job.py --topic 'a b'")


def test_or_a_module_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/jobs/orders.py", "eu"])
    main_module(monkeypatch, __file__="/lib/jobs/orders.py", __spec__=SimpleNamespace(name="jobs.orders"))
    assert str(this_program(plan())) == "jobs.orders eu"
    # A notebook: its kernel has arguments of its own.
    main_module(monkeypatch, __spec__=None)
    assert (this_program(plan()).script, this_program(plan()).arguments) == ("", ())
    assert str(this_program(plan())) == "a program without a file"


def test_passwords_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--password", "x", "--db-password=y", "--topic", "a", "--api-key", "-v", "--token", "z", "token", "b"]
    monkeypatch.setattr(sys, "argv", ["job.py", *given])
    main_module(monkeypatch, __file__="job.py", __spec__=None)
    hidden = ("--password", "****", "--db-password=****", "--topic", "a", "--api-key", "-v", "--token", "****")
    assert this_program(plan()).arguments == (*hidden, "token", "b")
