"""Records of jobs that never ran, for tests of what is computed from a record."""

from __future__ import annotations

from beadline.web.record import (
    OPERATOR,
    SINK,
    SOURCE,
    Checkpoint,
    CheckpointConfig,
    CheckpointCounts,
    Edge,
    Failure,
    JobRecord,
    Metrics,
    OperatorState,
    Settings,
    Start,
    StatusChange,
    Step,
    Subtask,
    Vertex,
    Worker,
)

NOW = 1_700_000_100_000
START = 1_700_000_000_000


def vertex(number: int, kind: str = OPERATOR, parallelism: int = 2) -> Vertex:
    """An operator with the id ``number``, which reads from the one before it."""
    made = Vertex(
        f"{number:032x}", f"operator {number}", f"uid-{number}", kind, "map", number, parallelism, 128, kind == OPERATOR
    )
    if kind != SOURCE:
        made.inputs = [Edge(f"{number - 1:032x}", 0, "HASH", exchange=True)]
    for index in range(parallelism):
        watermark = None if kind == SOURCE else START + index
        made.subtasks.append(
            Subtask(
                index,
                records_in=100 + index,
                records_out=50,
                bytes_in=1000,
                bytes_out=2000,
                records_in_per_second=10.5,
                busy=0.25,
                busy_ms=25_000,
                idle_ms=75_000,
                watermark=watermark,
                keys=7,
                state_bytes=300,
                worker="w1",
                metrics=Metrics(counters={"seen": 3}, gauges={"depth": 4}) if kind == OPERATOR else None,
            )
        )
    return made


def checkpoint(id: int, vertices: list[Vertex], status: str = "COMPLETED", savepoint: bool = False) -> Checkpoint:
    """One that took ``id`` milliseconds, of which it waited a third for the running step."""
    triggered = START + 1000 * id
    made = Checkpoint(
        id,
        "savepoint" if savepoint else "aligned checkpoint",
        status,
        savepoint,
        triggered,
        taken_at=triggered + id // 3,
        ended_at=None if status == "IN_PROGRESS" else triggered + id,
        step=10 * id,
    )
    if status == "COMPLETED":
        made.size, made.full_size, made.path = 10 * id, 100 * id, f"/checkpoints/chk-{id}"
        made.operators = [OperatorState(v.id, [5 + id] * v.parallelism, [id] * v.parallelism) for v in vertices]
    elif status == "FAILED":
        made.reason, made.failure = "CHECKPOINT_EXPIRED", "Checkpoint expired before completing. 600000 ms"
    return made


def record(operators: int = 1, checkpoints: int = 3, **more: object) -> JobRecord:
    """A running job: a source, some operators and a sink; its newest checkpoint runs, the one before it has failed."""
    vertices = [vertex(0, SOURCE), *(vertex(n) for n in range(1, operators + 1)), vertex(operators + 1, SINK)]
    vertices[0].backlog, vertices[0].backlog_bytes = 12, 3400
    done = [checkpoint(id, vertices, savepoint=id == 2) for id in range(1, checkpoints + 1)]
    done.append(checkpoint(checkpoints + 1, vertices, "FAILED"))
    done.append(checkpoint(checkpoints + 2, vertices, "IN_PROGRESS"))
    made = JobRecord(
        "a" * 32,
        "counts",
        "RUNNING",
        "running",
        now=NOW,
        started_at=START,
        version="0.1.0",
        engine="local",
        slots=2,
        guarantee="exactly-once",
        script="/home/user/job.py",
        pid=4711,
        host="here",
        step=30,
        records=202,
        records_per_second=21.0,
        attempt=2,
        restarts=1,
        settings=Settings(
            parallelism=2,
            restart_strategy="at most 3 restarts, each after 1 s",
            state_backend="hashmap",
            options={"parallelism.default": "2"},
            parameters={"city": "Kyoto"},
            checkpoints=CheckpointConfig(True, 1000, storage="filesystem", directory="/checkpoints"),
        ),
        vertices=vertices,
        checkpoints=done[::-1],
        counts=CheckpointCounts(len(done), checkpoints, 1, 1),
        failures=[
            Failure(
                START + 500,
                1,
                "operator 'operator 1' (subtask 1) failed at record 7: ValueError: bad",
                "ValueError",
                'ValueError: bad\n  at /home/user/job.py, line 12, in f: raise ValueError("bad")',
                "operator 1",
                1,
                "7",
                "w1",
                "checkpoint 1",
            )
        ],
        starts=[Start(START, 1), Start(START + 700, 2, 1, 10, "/checkpoints/chk-1")],
        statuses=[
            StatusChange(START, "RUNNING", "preparing"),
            StatusChange(START + 500, "RESTARTING", "restarting"),
            StatusChange(START + 700, "RUNNING", "restoring"),
        ],
        steps=[Step(29, NOW - 200, 0.1, 100), Step(30, NOW - 100, 0.1, 102, tries=2)],
        workers=[Worker("w1", "4711", 4712, "here", NOW - 100)],
        metrics=Metrics(counters={"seen": 6}),
    )
    for name, value in more.items():
        setattr(made, name, value)
    return made
