"""The job of the stored snapshots: every kind of state, timers, windows, sources and sinks, and a closed form of what
it writes.

Numbers ``0 … RECORDS - 1``, each with itself as timestamp, are dealt out by key. The lines of a text file go another
way. Both end up in files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beadline.cep import CEP, Pattern
from beadline.common import Configuration, Encoder, Time, Types, WatermarkStrategy
from beadline.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from beadline.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from beadline.testing import At, TestSource
from tests.old_snapshots.functions import (
    ANY,
    BOXES,
    FIRST_DAY,
    KEYS,
    RECORDS,
    RULES,
    Boxes,
    Counted,
    Lines,
    Pair,
    Progress,
    Remember,
    Scale,
    Seen,
    Session,
    things,
)

LINES = 1000
WINDOW = 50
GAP = 20
COUNT = 7
FACTOR = 7
GROUPS = 16
HOUR_MS = 3_600_000


def numbers(end: int) -> list[At]:
    return [At(number, number) for number in range(end)]


def write_text(folder: Path) -> None:
    """The file that the job in this folder reads."""
    (folder / "text").mkdir(parents=True)
    (folder / "text" / "lines.txt").write_text("".join(f"line {i}\n" for i in range(LINES)))


def environment(folder: Path, options: Mapping[str, Any], source: TestSource, markers: str | None = None) -> Any:
    """The job in an environment, ready to be executed; everything that it reads and writes is in the folder."""
    settings = {
        "parallelism.default": 2,
        "pipeline.max-parallelism": GROUPS,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": folder / "checkpoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "none",
        **options,
    }
    configuration = Configuration.from_dict({key: str(value) for key, value in settings.items()})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    strategy = WatermarkStrategy.for_generator(Progress)
    # All numbers come through one subtask, and the others would hold back the watermark.
    read = env.from_source(source, strategy, "numbers", Types.LONG()).uid("numbers").set_parallelism(1)
    seen = read.rebalance().flat_map(Seen(markers), output_type=ANY).uid("seen")
    known = seen.filter(_is_number).uid("known").map(int, output_type=Types.LONG()).uid("typed")
    said = seen.filter(_is_text).uid("texts").map(str, output_type=Types.STRING()).uid("said")
    told = [*_by_key(known), _boxes(known), _scaled(env, known), said]
    texts = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / "text"))
    lines = env.from_source(texts.build(), WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    told.append(lines.key_by(_last_digit, Types.LONG()).process(Lines(), output_type=Types.STRING()).uid("count"))
    _write(told[0].union(*told[1:]), folder / "out", RollingPolicy.on_checkpoint_rolling_policy(), "told")
    # A part that is not complete before the snapshot is made, nor for long after it.
    slow = RollingPolicy.default_rolling_policy(rollover_interval=HOUR_MS, inactivity_interval=HOUR_MS)
    _write(lines, folder / "copied", slow, "copied")
    return env


def _by_key(known: DataStream) -> Iterator[DataStream]:
    keyed: KeyedStream = known.key_by(_key, Types.LONG())
    text = Types.STRING()
    yield keyed.process(Remember(), output_type=text).uid("remember")
    pairs = known.map(_pair, output_type=Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])).uid("pairs")
    windows = pairs.key_by(_first, Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW)))
    yield windows.reduce(_add).uid("windows").map(_window, output_type=text).uid("window lines")
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP)))
    yield sessions.process(Session(), text).uid("sessions")
    yield keyed.count_window(COUNT).process(Counted(), text).uid("counted")
    joined = keyed.interval_join(keyed).between(Time.milliseconds(1), Time.milliseconds(KEYS))
    yield joined.process(Pair(), text).uid("joined")
    pattern = Pattern.begin("first").where(_is_first).followed_by("second").where(_is_second)
    yield CEP.pattern(keyed, pattern).select(_match, text).uid("matched")


def _boxes(known: DataStream) -> DataStream:
    return known.key_by(_box).process(Boxes(), output_type=Types.STRING()).uid("boxes")


def _scaled(env: StreamExecutionEnvironment, known: DataStream) -> DataStream:
    rules = env.from_collection([("factor", FACTOR)], ANY).uid("rules").broadcast(RULES)
    return known.connect(rules).process(Scale(), output_type=Types.STRING()).uid("scale")


def _write(stream: DataStream, folder: Path, policy: RollingPolicy, uid: str) -> None:
    sink = (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        .with_rolling_policy(policy)
        .build()
    )
    stream.sink_to(sink).uid(uid)


def _is_number(value: Any) -> bool:
    return isinstance(value, int)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _key(value: int) -> int:
    return value % KEYS


def _box(value: int) -> list[Any]:
    return [value % BOXES, "box"]


def _last_digit(line: str) -> int:
    return int(line[-1])


def _pair(value: int) -> tuple[int, int, int]:
    return value % KEYS, value // WINDOW, value


def _first(pair: tuple[int, int, int]) -> int:
    return pair[0]


def _add(a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
    return a[0], a[1], a[2] + b[2]


def _window(pair: tuple[int, int, int]) -> str:
    return f"window {pair[0]} {pair[1]} {pair[2]}"


def _is_first(value: int) -> bool:
    return value // KEYS % 3 == 0


def _is_second(value: int) -> bool:
    return value // KEYS % 3 == 2


def _match(match: Mapping[str, list[int]]) -> str:
    return f"match {match['first'][0]} {match['second'][0]}"


# -- what it should write


def expected(since: int) -> list[str]:
    """The lines that a whole run tells, but for those of operator state, sorted.

    :param since: the first number after the snapshot; what expires early has seen no other
    """
    lines = [f"scaled {(RECORDS - 1) * FACTOR}"]
    lines += [f"pair {left} {left + KEYS}" for left in range(RECORDS - KEYS)]
    for key in range(KEYS):
        lines += _expected_of_key(key, since)
    for box in range(BOXES):
        mine = range(box, RECORDS, BOXES)
        rows = [(number, [box, "box"]) for number in mine]
        halves = [len([number for number in mine if number % 2 == rest]) for rest in (0, 1)]
        entries = [(f"('tuple', {rest})", count, str(count)) for rest, count in enumerate(halves)]
        entries.append(("nan", len(mine), str(len(mine))))
        lines.append(f"box {[box, 'box']} {sum(mine)} {things()} {rows} {entries}")
    lines += [f"lines {digit} {LINES // 10}, early" for digit in range(10)]
    return sorted(lines)


def _expected_of_key(key: int, since: int) -> Iterator[str]:
    mine = list(range(key, RECORDS, KEYS))
    for end in range(len(mine)):
        yield f"total {key} {sum(mine[: end + 1])}"
    for number in range(0, RECORDS, WINDOW):
        yield f"window {key} {number // WINDOW} {sum(n for n in mine if n // WINDOW == number // WINDOW)}"
    yield f"session {key} {mine[0]} {mine[-1] + GAP} {mine}"
    for first in range(0, len(mine) - COUNT + 1, COUNT):
        yield f"counted {key} {mine[first : first + COUNT]}"
    for first in mine:
        if _is_first(first) and first + 2 * KEYS < RECORDS:
            yield f"match {first} {first + 2 * KEYS}"
    yield f"event {key} 150"
    yield f"processing {key}"
    parts: dict[str, float] = {}
    for number in mine:
        parts[f"part {number % 4}"] = parts.get(f"part {number % 4}", 0.0) + number / 2
        if number >= 30:
            parts.pop("part 0", None)
    visits = [(number, f"page {number}") for number in mine[-2:]]
    told = [
        sum(mine),
        [len(mine), f"text {mine[-1]}", mine[-3:], f"{len(mine) / 4:.2f}", {f"size {key % 2}": mine[-1] / 4}],
        [str(FIRST_DAY + dt.timedelta(len(mine))), mine[-1], [mine[-1]]],
        (mine[-1], f"pair {mine[-1]}"),
        mine,
        sorted(parts.items()),
        sum(mine),
        mine[-1] - mine[0],
        ["Account", f"owner {key}", sum(mine), visits],
        len(mine),
        mine,
        sorted({number % 5: f"living {number}" for number in mine}.items()),
        len([number for number in mine if number >= since]),
    ]
    yield f"remember {key} {told}"
