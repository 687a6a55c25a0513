"""Jobs as records, for pages that are to be seen with much, little, odd or no data at all."""

from __future__ import annotations

import random

from xxhash import xxh3_128_hexdigest

from beadline.web.record import (
    Checkpoint,
    CheckpointConfig,
    CheckpointCounts,
    Edge,
    Failure,
    JobRecord,
    OperatorState,
    Settings,
    Start,
    StatusChange,
    Step,
    Subtask,
    Vertex,
)

TRACEBACK = """\
ValueError: could not convert string to float: 'n/a'
  File "/home/ann/jobs/click_count.py", line 41, in parse
    price = float(fields[3])

Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/beadline/runtime/operators/chain.py", line 88, in process
    self.collect(self.function.map(value))
  File "/home/ann/jobs/click_count.py", line 41, in parse
    price = float(fields[3])
ValueError: could not convert string to float: 'n/a'
"""


def job_id(name: str) -> str:
    return xxh3_128_hexdigest(name.encode())


def vertex(
    name: str,
    kind: str,
    level: int,
    inputs: list[tuple[str, str]],
    dice: random.Random,
    parallelism: int = 4,
    busy: float | None = None,
    keyed: bool = False,
) -> Vertex:
    """An operator with made-up numbers; ``inputs`` are names and ship strategies."""
    rate = dice.uniform(800, 9000)
    share = dice.uniform(0.05, 0.5) if busy is None else busy
    keys = dice.randrange(1000, 40000) if keyed else 0
    subtasks = [
        Subtask(
            number,
            records_in=0 if kind == "source" else int(rate * 3600 * dice.uniform(0.8, 1.2)),
            records_out=0 if kind == "sink" else int(rate * 3600 * dice.uniform(0.8, 1.2)),
            records_in_per_second=0.0 if kind == "source" else rate * dice.uniform(0.8, 1.2),
            records_out_per_second=0.0 if kind == "sink" else rate * dice.uniform(0.8, 1.2),
            busy=min(1.0, share * dice.uniform(0.85, 1.15)),
            watermark=None,
            keys=keys,
            state_bytes=keys * 92,
        )
        for number in range(parallelism)
    ]
    edges = [Edge(job_id(source), 0, ship, ship != "FORWARD") for source, ship in inputs]
    return Vertex(
        job_id(name),
        name,
        uid=name.lower(),
        kind=kind,
        level=level,
        parallelism=parallelism,
        keyed=keyed,
        inputs=edges,
        subtasks=subtasks,
        backlog=int(rate * 3) if kind == "source" else None,
    )


def click_count(now: int, checkpoints: int = 60) -> JobRecord:
    """A running job in good health that has been through one failure."""
    dice = random.Random(4)
    vertices = [
        vertex("Clicks from Kafka", "source", 0, [], dice, busy=0.22),
        vertex("Parse", "operator", 0, [("Clicks from Kafka", "FORWARD")], dice, busy=0.34),
        vertex("Drop robots", "operator", 0, [("Parse", "FORWARD")], dice, busy=0.12),
        vertex("Campaigns", "source", 0, [], dice, parallelism=1, busy=0.03),
        vertex("Count per page, 15 s windows", "operator", 1, [("Drop robots", "HASH")], dice, busy=0.66, keyed=True),
        vertex(
            "Join with campaigns", "operator", 1, [("Drop robots", "HASH"), ("Campaigns", "BROADCAST")], dice,
            busy=0.41, keyed=True,
        ),
        vertex("Format", "operator", 1, [("Count per page, 15 s windows", "FORWARD")], dice, busy=0.08),
        vertex("Top ten", "operator", 2, [("Join with campaigns", "HASH")], dice, parallelism=2, busy=0.9, keyed=True),
        vertex("Counts to Kafka", "sink", 2, [("Format", "REBALANCE")], dice, parallelism=2, busy=0.17),
        vertex("Top ten to PostgreSQL", "sink", 3, [("Top ten", "REBALANCE")], dice, parallelism=1, busy=0.05),
    ]  # fmt: skip
    for each in vertices:
        for subtask in each.subtasks:
            subtask.watermark = now - 4200 - 1000 * each.level if each.name != "Campaigns" else None
    record = with_history(
        JobRecord(job_id("clicks"), "Click count", "RUNNING", "running", now), vertices, now, checkpoints, 240, dice
    )
    record.watermark = now - 7200
    return record


def huge(now: int, operators: int = 200, checkpoints: int = 1000) -> JobRecord:
    """A job with very many operators, a long history, long names and large numbers."""
    dice = random.Random(7)
    vertices: list[Vertex] = []
    levels: list[list[Vertex]] = [[]]
    for number in range(operators):
        level = min(number * 8 // operators, 7)
        while len(levels) <= level:
            levels.append([])
        kind = "source" if level == 0 else "sink" if level == 7 else "operator"
        before = dice.sample(levels[level - 1], min(len(levels[level - 1]), dice.choice([1, 1, 1, 2]))) if level else []
        inputs = [(each.name, dice.choice(["HASH", "REBALANCE", "BROADCAST"])) for each in before]
        if level and levels[level] and dice.random() < 0.3:
            inputs = [(levels[level][-1].name, "FORWARD")]
        name = f"{kind.title()} {number}"
        if number == 30:
            name += ": enriches_and_deduplicates_everything_that_comes_from_the_old_data_warehouse_in_three_passes"
        made = vertex(name, kind, level, inputs, dice, parallelism=dice.choice([1, 4, 16]), keyed=level in (2, 5))
        levels[level].append(made)
        vertices.append(made)
    record = JobRecord(job_id("huge"), "Everything, everywhere, " + "and-all-at-once-" * 6 + "nightly", "RUNNING")
    record = with_history(record, vertices, now, checkpoints, 2000, dice)
    record.records, record.state_bytes, record.keys = 9_876_543_210_123, 7 * 1024**4, 1_234_567_890
    record.watermark = 2**63 - 1
    return record


def young(now: int) -> JobRecord:
    """A job that has just started: it has a plan, and nothing has happened."""
    vertices = [
        Vertex(job_id("a"), "From a collection", kind="source", subtasks=[Subtask(0)]),
        Vertex(job_id("b"), "Print", kind="sink", inputs=[Edge(job_id("a"))], subtasks=[Subtask(0)]),
    ]
    return JobRecord(
        job_id("young"),
        "Hello",
        state="RUNNING",
        life="running",
        now=now,
        started_at=now - 300,
        engine="local",
        vertices=vertices,
        settings=Settings(state_backend="hashmap"),
        statuses=[StatusChange(now - 300, "RUNNING")],
    )


def ended(now: int, state: str = "FAILED") -> JobRecord:
    """A job of the past."""
    record = click_count(now - 86_400_000, 30)
    record.job_id, record.name, record.state = job_id("ended" + state), f"Orders, {state.lower()}", state
    record.life = "ended"
    record.ended_at = now - 86_400_000
    return record


def with_history(
    record: JobRecord, vertices: list[Vertex], now: int, checkpoints: int, steps: int, dice: random.Random
) -> JobRecord:
    """Steps of about two seconds, a checkpoint each ten, one failure on the way."""
    started = now - max(checkpoints * 10_000, steps * 2000)
    broke = now - 95_000
    keyed = [each for each in vertices if each.keyed]
    place = f"file:/home/ann/checkpoints/{record.job_id}"
    record.now, record.started_at, record.vertices = now, started, vertices
    record.engine, record.guarantee, record.script = "spark", "exactly-once", "/home/ann/jobs/click_count.py"
    record.pid, record.host, record.log = 4711, "localhost", "/home/ann/.local/state/beadline/logs/click-count.log"
    for number in range(steps):
        at = now - (steps - number) * 2000 + dice.randrange(-150, 150)
        lost = 3 if at > broke else 0
        record.steps.append(
            Step(
                number - lost,
                at,
                seconds=dice.uniform(1.2, 1.9),
                records=int(16_000 * (1 + 0.5 * dice.random())),
                tries=2 if number % 47 == 20 else 1,
                state_bytes=10_000_000 + number * 22_000,
            )
        )
    for number in range(1, checkpoints + 1):
        triggered = now - (checkpoints - number + 0.5) * 10_000
        size = int(400_000 * (1 + dice.random()))
        saved, failed = number % 25 == 12, number % 40 == 33
        record.checkpoints.append(
            Checkpoint(
                number,
                type="savepoint" if saved else "aligned checkpoint",
                status="FAILED" if failed else "COMPLETED",
                savepoint=saved,
                triggered_at=int(triggered),
                taken_at=int(triggered + 500),
                ended_at=int(triggered + dice.uniform(600, 1500)),
                step=number * 5,
                size=None if failed else size,
                full_size=None if failed else 10_000_000 + number * 90_000,
                path=None if failed else f"{place}/{'savepoint' if saved else 'chk'}-{number}",
                reason="expired" if failed else None,
                failure="The checkpoint took longer than its timeout of 10 s." if failed else None,
                discarded=number < checkpoints - 2,
                operators=[
                    OperatorState(each.id, [size // each.parallelism] * each.parallelism, [9000] * each.parallelism)
                    for each in keyed
                ],
            )
        )
    record.checkpoints.reverse()
    failed = sum(each.status == "FAILED" for each in record.checkpoints)
    record.counts = CheckpointCounts(checkpoints, checkpoints - failed, failed, 1)
    restored = max(1, checkpoints - 10)
    record.failures = [
        Failure(
            broke,
            error="ValueError: could not convert string to float: 'n/a'",
            name="ValueError",
            traceback=TRACEBACK,
            operator="Parse",
            subtask=2,
            restarted_from=f"checkpoint {restored}",
        )
    ]
    record.starts = [Start(started, 1), Start(broke + 2500, 2, restored, 200)]
    record.statuses = [
        StatusChange(started, "RUNNING"),
        StatusChange(broke, "RESTARTING"),
        StatusChange(broke + 2500, "RUNNING"),
    ]
    options = {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": "file:///home/ann/checkpoints",
        "state.backend.type": "rocksdb",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "parallelism.default": "4",
        "pipeline.name": record.name,
        "kafka.sasl.password": "******",
    }
    how = CheckpointConfig(True, 10_000, storage="filesystem", directory="file:///home/ann/checkpoints")
    strategy = "fixed delay, 10 attempts, 1 s"
    record.settings = Settings(False, 4, strategy, "rocksdb", options, parameters={"topic": "clicks"}, checkpoints=how)
    record.step, record.records = record.steps[-1].step, 118_234_567
    record.records_per_second, record.attempt, record.restarts, record.rerun_steps = 15_480.5, 2, 1, 3
    record.keys = sum(each.total("keys") for each in vertices)
    record.state_bytes = sum(each.total("state_bytes") for each in vertices)
    record.last_checkpoint = record.checkpoints[0].path
    return record
