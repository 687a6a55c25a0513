"""``beadline savepoint``: looking into snapshots without running a job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotKind
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import Types
from beadline.graph.program import Program
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.operator.handles import LIST, OperatorStateHandle, StateRef
from beadline.state.segments.version import KeyedStateHandle, SegmentRef

PROGRAM = """
    import sys
    from {package}.common import Types
    from {package}.datastream import StreamExecutionEnvironment
    from {package}.datastream.functions import KeyedProcessFunction
    from {package}.datastream.state import ValueStateDescriptor

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value, ctx):
            raise AssertionError("the job runs")

    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([("a", 1)]).uid("numbers")
    counted = stream.key_by(lambda value: value[0], {key}).process(Count()).uid("{uid}").name("count")
    counted.print().uid("out")
    try:
        env.execute("counting")
    except Exception as error:
        print("handled", error)
    print("behind execute")
"""


def test_both_commands_answer_in_json(beadline, savepoint, write):
    write("job.py", program(uid="other"))

    shown = json.loads(beadline("savepoint", "show", str(savepoint), "--json").stdout)
    compared = beadline("savepoint", "diff", "--json", str(savepoint), "job.py")

    assert {operator["uid"] for operator in shown["operators"]} >= {"count"}
    assert any(state["bytes"] for operator in shown["operators"] for state in operator["states"])
    answer = json.loads(compared.stdout)
    assert (compared.returncode, answer["starts"], len(answer["refusals"])) == (1, False, 1)
    assert {operator["uid"]: operator["fate"] for operator in answer["operators"]}["count"] == "dropped"


def program(uid: str = "count", key: str = "Types.STRING()", package: str = "beadline") -> str:
    return PROGRAM.format(uid=uid, key=key, package=package)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    segment = SegmentRef("v1", 1234, 5000, inline=b"x" * 5000)
    seen_segment = SegmentRef("s", 5, 50, inline=b"y" * 50)
    total = StateDescription("total", "value", type_to_text(Types.LONG()), descriptor="ValueState")
    names = StateDescription("[names]", "map", "", type_to_text(Types.STRING()), descriptor="MapState", ttl_ms=5000)
    seen = StateDescription("seen", LIST, type_to_text(Types.STRING()), scope=OPERATOR, descriptor="ListState")
    timers = StateDescription("_event-timers", "timer", descriptor="EventTimeTimers")
    snapshot = Snapshot(
        17,
        "6b1f",
        "counting",
        step=42,
        timestamp=1_700_000_000_000,
        kind=SnapshotKind.SAVEPOINT,
        program=Program("/jobs/count.py", ("--topic", "a b")),
        counters={"records": 9000},
        operators=(
            OperatorSnapshot("numbers", "source", 1, 128, position={"offset": 7}),
            OperatorSnapshot(
                "count",
                "count",
                2,
                128,
                keyed=(KeyedStateHandle("root-0", (segment,)), KeyedStateHandle("root-1", (segment,))),
                operator_state=(OperatorStateHandle({"seen": StateRef(LIST, (seen_segment,))}), None),
                state_descriptions=(total, names, seen, timers),
                key_type=type_to_text(Types.STRING()),
            ),
            OperatorSnapshot("abcd", "map", 2, 128, generated_uid=True),
            OperatorSnapshot("files", "sink", 1, 128, committables={"staged": []}),
        ),
    )
    folder = tmp_path / "savepoint-17"
    folder.mkdir()
    (folder / "_metadata").write_bytes(metadata.encode(snapshot, str(folder)))
    return folder


def lines(text: str) -> list[list[str]]:
    """Without what only spaces say."""
    return [line.split() for line in text.splitlines() if line.strip()]


class TestShow:
    def test_a_savepoint(self, beadline, savepoint):
        result = beadline("savepoint", "show", str(savepoint))

        assert result.stderr == ""
        assert result.returncode == 0
        shown = lines(result.stdout)
        for line in (
            "job counting (6b1f)",
            "program /jobs/count.py --topic 'a b'",
            "kind savepoint 17, native",
            "format 1",
            "time 2023-11-14 22:13:20 UTC",
            "step 42, 9,000 records read",
            "source numbers 1 of 128 position {'offset': 7}",
            "count count 2 of 128 by key, STRING 2,468 10,000",
            "total: value of LONG",
            "[names]: map of STRING → any object, lives 5000 ms",
            "seen: operator list of STRING 5 50",
            "event-time timers",
            "map abcd (generated) 2 of 128",
            "sink files 1 of 128 output that is committed on restore",
        ):
            assert line.split() in shown

    def test_its_metadata_file(self, beadline, savepoint):
        assert beadline("savepoint", "show", f"{savepoint}/_metadata").returncode == 0

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda folder: folder / "nowhere", "there is no checkpoint or savepoint at"),
            (lambda folder: folder.parent, "is a directory and not a checkpoint or savepoint"),
            (
                lambda folder: altered(folder, b'"format": 1', b'"format": 9'),
                "format version 9, and this",
            ),
            (lambda folder: altered(folder, b"counting", b"cuonting"), "is cut short or altered"),
            (lambda folder: altered(folder, b'{\n"beadline"', b"something else"), "is not the metadata of a Beadline"),
        ],
    )
    def test_what_can_not_be_read_is_told_in_one_sentence(self, beadline, savepoint, damage, message):
        result = beadline("savepoint", "show", str(damage(savepoint)))

        assert result.returncode == 1
        assert result.stdout == ""
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1


def altered(folder: Path, before: bytes, after: bytes) -> Path:
    data = (folder / "_metadata").read_bytes()
    assert before in data
    (folder / "_metadata").write_bytes(data.replace(before, after))
    return folder


class TestDiff:
    def test_a_program_that_can_go_on(self, beadline, write, savepoint):
        write("job.py", program())

        result = beadline("savepoint", "diff", "-p", "2", "-n", str(savepoint), "job.py")

        assert result.stderr == ""
        assert result.returncode == 0
        assert "handled" not in result.stdout
        assert "behind execute" not in result.stdout
        shown = lines(result.stdout)
        for line in (
            "Collection Source (uid numbers) restored",
            "count (uid count) restored",
            "total restored value of LONG",
            "[names] not declared map of STRING → any object",
            "seen not declared operator list of STRING",
            "event-time timers restored",
            "sink (uid files) dropped",
            "Print to Std. Out stateless",
        ):
            assert line.split() in shown
        assert (savepoint / "_metadata").exists()

    def test_a_program_that_is_refused(self, beadline, write, savepoint):
        write("job.py", program(uid="count", key="Types.INT()"))

        result = beadline("savepoint", "diff", str(savepoint), "job.py")

        assert result.returncode == 1
        told = result.stderr.splitlines()
        assert len(told) == 2
        assert "refused: the program has no operator for the state of 'sink' (uid files)" in told[0]
        assert "has keys of type INT, and its state was written with keys of type STRING" in told[1]
        assert ["count", "(uid", "count)", "refused"] in [line[:4] for line in lines(result.stdout)]

    def test_options_reach_the_program(self, beadline, write, savepoint):
        write("job.py", program(package="pyflink"))

        result = beadline(
            "savepoint", "diff", "--pyflink", "-n", "-p", "200", "-D", "pipeline.max-parallelism=300", str(savepoint),
            "job.py",
        )  # fmt: skip

        assert result.returncode == 1
        assert "has parallelism 200, and its state was written with max parallelism 128" in result.stderr

    def test_a_program_without_a_job(self, beadline, write, savepoint):
        write("job.py", "print('nothing to do')")

        result = beadline("savepoint", "diff", str(savepoint), "job.py")

        assert result.returncode == 1
        assert "job.py ended without execute()" in result.stderr

    def test_a_program_that_fails(self, beadline, write, savepoint):
        write("job.py", "raise ValueError('mine')")

        result = beadline("savepoint", "diff", str(savepoint), "job.py")

        assert result.returncode == 1
        assert "ValueError: mine" in result.stderr

    def test_a_snapshot_that_is_not_there(self, beadline, write):
        write("job.py", "raise AssertionError('the program was run')")

        result = beadline("savepoint", "diff", "nowhere", "job.py")

        assert result.returncode == 1
        assert result.stderr.startswith("error: there is no checkpoint or savepoint at nowhere")
