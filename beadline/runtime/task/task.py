"""One task: one level of one step in one partition.

It reads rows in the order that the exchange gives them, runs the operators of its level, and sends rows on. It
changes nothing outside of itself: state goes to an overlay and a new segment file, results to the next level or into
the acknowledgement. A task that Spark runs twice therefore does nothing twice.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import xxhash

from beadline.errors import BeadlineError, ChannelError, StepError
from beadline.graph.plan import CHANNEL_BITS
from beadline.graph.specs import Broadcast
from beadline.runtime.exchange.gate import ChannelCheck, WatermarkGate
from beadline.runtime.exchange.output import LocalTarget, local_channel
from beadline.runtime.exchange.rows import ACK, BARRIER, DATA, DESCRIPTOR, DRIVER, RowBuffer, WireRow
from beadline.runtime.exchange.writer import ChannelWriter, Ends, make_writer
from beadline.runtime.failure import NO_RECORD, Failure, UserCodeError
from beadline.runtime.functions.printed import Printed
from beadline.runtime.messages import StepHeader, SubtaskAck, TaskAck, TaskInput
from beadline.runtime.operators import Operator
from beadline.runtime.task import poison
from beadline.runtime.task.acks import Acks
from beadline.runtime.task.stopwatch import Stopwatch
from beadline.runtime.worker.garbage import walk_everything_next
from beadline.runtime.worker.worker import WorkerExecution
from beadline.state.codec import dumps
from beadline.state.disks import is_full
from beadline.state.key_groups import key_group_range
from beadline.state.store import Store, StoreOwner, open_store


@contextlib.contextmanager
def _naming(operator: Operator[Any]) -> Iterator[None]:
    """The error of a full disk does not say which operator's file could not be written."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserCodeError | BeadlineError) or not is_full(error):
            raise
        raise UserCodeError(operator.node.name, NO_RECORD, error, made_at=operator.node.made_at) from error


class Task:
    def __init__(self, execution: WorkerExecution, header: StepHeader, level: int, partition: int) -> None:
        self._execution = execution
        self._plan = execution.plan
        self._header = header
        self._level = level
        self._partition = partition
        self._is_last = level == len(self._plan.levels) - 1
        self._buffer = RowBuffer()
        self._writers: list[ChannelWriter] = []
        self._checks = self._expected_channels()
        self._consumed: dict[tuple[int, int], str] = {}
        self._operators: list[Operator[Any]] = []
        self._by_node: dict[int, Operator[Any]] = {}
        self._stores: list[Store] = []
        self._acknowledging = Acks(execution, header, partition)
        self.printed = Printed()
        self._started = time.perf_counter()
        self._watch = Stopwatch(next((node for node in self._plan.levels[level]), -1))
        self._bytes_in: dict[int, int] = {}
        self._failure: Failure | None = None
        self._skipped = False

    # -- from the first row to the last

    def work(self, rows: Iterator[WireRow], given: TaskInput | None) -> Generator[list[WireRow]]:
        """Run the task, and let go of its stores however it ends."""
        try:
            yield from self._work(rows, given)
        finally:
            for store in self._stores:
                store.release()

    def _work(self, rows: Iterator[WireRow], given: TaskInput | None) -> Iterator[list[WireRow]]:
        """The steps of a task.

        1. take the descriptor, bring state to its version, open what is new
        2. process chunks in the order of the exchange; pass on what is for deeper levels
        3. check every channel against its barrier
        4. end the step in the operators, take snapshots of functions, write the deltas
        5. send barriers, then the acknowledgement
        """
        if given is not None:
            self._guarded(self._begin, given)
            yield from self._start()
        for row in rows:
            if row.target != self._level:
                self._buffer.add(row)
            elif row.dest != self._partition:
                raise ChannelError(f"level {self._level}, partition {self._partition} got a row for {row.dest}")
            elif row.kind == DESCRIPTOR:
                if self._operators or self._out:
                    raise ChannelError(f"level {self._level}, partition {self._partition} got two descriptors")
                self._guarded(self._begin, pickle.loads(row.payload))
                yield from self._start()
            elif row.kind == DATA:
                elements = self._checks_of(row.channel).chunk(row)
                edge = row.channel >> CHANNEL_BITS
                self._bytes_in[edge] = self._bytes_in.get(edge, 0) + len(row.payload)
                self._check_begun()
                self._guarded(self._receive, row.channel, elements)
            elif row.kind == BARRIER:
                self._barrier(row)
            yield from self._drain()
        self._check_complete()
        self._guarded(self._end)
        yield from self._drain()
        acks = [] if self._out else self._acks()
        ends = {} if self._out else self._finish_writers()
        # One digest for all that the task sent, so that the driver can tell attempts apart.
        digest = xxhash.xxh3_128_hexdigest(repr((self._out, list(ends.items()))).encode())
        self._send_barriers(ends, digest)
        self._acknowledge(acks, digest)
        yield from self._drain(everything=True)
        self._keep()

    @property
    def _out(self) -> bool:
        """Whether user code failed here or upstream; of the rest of the step only the barriers are read."""
        return self._failure is not None or self._skipped

    def _guarded(self, function: Any, *arguments: Any) -> None:
        """Call into operators. What user code raises becomes the task's failure, not Spark's."""
        if self._out:
            return
        try:
            function(*arguments)
        except Exception as error:
            self._take(error)

    def _take(self, error: Exception) -> None:
        """Make an error the task's failure if it would come again, so that running the step again would not help."""
        if isinstance(error, StepError):
            raise error
        if not isinstance(error, UserCodeError | BeadlineError) and not is_full(error):
            raise error
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        name = self._operators[0].node.name if self._operators else f"level {self._level}"
        failure = Failure.of(error, name, self._partition)
        self._failure = replace(failure, culprit=self._culprit(error))

    def _culprit(self, error: Exception) -> tuple[int, str] | None:
        """Which record to blame, if one operator failed on it."""
        if not isinstance(error, UserCodeError) or error.node is None or error.record is NO_RECORD:
            return None
        if is_full(error.cause):
            return None
        digest = poison.digest_of(error.record)
        return (error.node, digest) if digest is not None else None

    def _start(self) -> Iterator[list[WireRow]]:
        """Let operators do what is due before the first record; sources read, a batch at a time."""
        for operator in self._operators:
            self._watch.enter(operator.node.id)
            batches: Iterator[None] | None = None
            while not self._out:
                try:
                    # Timers fire in here: what they raise is the function's failure too.
                    batches = operator.start() if batches is None else batches
                    next(batches)
                except StopIteration:
                    break
                except Exception as error:
                    self._take(error)
                yield from self._drain()

    def _drain(self, everything: bool = False) -> Iterator[list[WireRow]]:
        if everything or self._buffer.full:
            rows = self._buffer.take()
            if rows:
                yield rows

    # -- begin

    def _begin(self, given: TaskInput) -> None:
        execution, header, place = self._execution, self._header, (self._level, self._partition)
        self._operators = self._kept_operators(given) or execution.make_operators(*place, header.context.attempt)
        self._by_node = {operator.node.id: operator for operator in self._operators}
        for operator in self._operators:
            operator.gate = WatermarkGate(self._channels_of(operator))
            operator.printed = self.printed
        self._connect()
        for operator in self._operators:
            start = given.subtasks[operator.node.id]
            store = None
            if operator.backend is not None:
                assert start.handle is not None
                key = (operator.node.id, self._partition)
                maximum = operator.node.max_parallelism
                groups = key_group_range(self._partition, operator.node.parallelism, maximum)
                whose = StoreOwner(header.context.execution, *key, maximum)
                cached = execution.stores.pop(key, None)
                with _naming(operator):
                    store = open_store(cached, start.handle, groups, header.context.backend, whose)
                execution.stores[key] = store
                self._stores.append(store)
            operator.states.begin(header, start.states)
            operator.begin(header, start, store)
            poison.guard(operator, header.poison)
            if not operator.opened:
                operator.states.initialize()
                operator.open()
            self._acknowledging.begin(operator, start.handle.version if start.handle is not None else None)
        for operator in self._operators:
            operator.states.notify()

    def _kept_operators(self, given: TaskInput) -> list[Operator[Any]] | None:
        """The operators that an earlier step left here, if all of them may continue with this step."""
        # Popped, and put back only after a good end: a failed attempt leaves neither functions nor half-taken stores.
        operators = self._execution.operators.pop((self._level, self._partition), None)
        if operators is None:
            return None
        if all(
            operator.states.continues(self._header, given.subtasks[operator.node.id].states) for operator in operators
        ):
            return operators
        for operator in operators:
            # They are at a version that this task must not report.
            with contextlib.suppress(Exception):
                operator.close()
        walk_everything_next()
        return None

    def _channels_of(self, operator: Operator[Any]) -> list[int]:
        channels: list[int] = []
        for edge in operator.node.inputs:
            if edge.exchange:
                channels += [edge.channel(i) for i in range(self._plan.nodes[edge.source].parallelism)]
            else:
                channels.append(local_channel(edge))
        return channels

    def _connect(self) -> None:
        for operator in self._operators:
            targets: list[tuple[str | None, Any]] = []
            for edge in operator.node.outputs:
                if edge.exchange:
                    writer = operator.writers.get(edge.index)
                    if writer is None:
                        target = self._plan.nodes[edge.target]
                        writer = make_writer(edge, operator.node, target, self._partition)
                        operator.writers[edge.index] = writer
                    writer.begin(self._header.step, self._buffer.add)
                    self._writers.append(writer)
                    targets.append((edge.tag, writer))
                else:
                    targets.append((edge.tag, LocalTarget(edge, self._by_node[edge.target], self._watch)))
            operator.output.connect(targets)

    # -- receive

    def _expected_channels(self) -> dict[int, ChannelCheck]:
        checks = {}
        for node in self._plan.nodes_of(self._level, self._partition):
            for edge in node.inputs:
                if edge.exchange:
                    source = self._plan.nodes[edge.source]
                    broadcast = isinstance(edge.partitioning, Broadcast)
                    for subtask in range(source.parallelism):
                        name = f"channel {source.name}[{subtask}] -> {node.name}[{self._partition}]"
                        checks[edge.channel(subtask)] = ChannelCheck(name, broadcast)
        return checks

    def _checks_of(self, channel: int) -> ChannelCheck:
        check = self._checks.get(channel)
        if check is None:
            raise ChannelError(
                f"level {self._level}, partition {self._partition} got a row of unknown channel {channel}"
            )
        return check

    def _receive(self, channel: int, elements: list[Any]) -> None:
        edge = self._plan.edges[channel >> CHANNEL_BITS]
        operator = self._by_node[edge.target]
        self._watch.enter(edge.target)
        for element in elements:
            if element.__class__ is tuple:
                operator.gate.mark_active(channel)
                operator.records(edge.input_index, *element)
            else:
                operator.control(channel, element)

    def _barrier(self, row: WireRow) -> None:
        count, digest, level, partition, task_digest, failed = pickle.loads(row.payload)
        if failed:
            # The sender stopped in the middle, its counts mean nothing; this task has nothing to seal.
            self._checks_of(row.channel).ended = True
            self._skipped = True
        else:
            self._checks_of(row.channel).barrier(row.seq, count, digest)
        known = self._consumed.setdefault((level, partition), task_digest)
        if known != task_digest:
            raise ChannelError(f"two attempts of level {level}, partition {partition} reached one task")

    def _check_complete(self) -> None:
        missing = [check.name for check in self._checks.values() if not check.ended]
        if missing:
            raise ChannelError(f"no barrier came through {len(missing)} channels, the first is {missing[0]}")
        self._check_begun()

    def _check_begun(self) -> None:
        if not self._operators and not self._out:
            raise ChannelError(f"level {self._level}, partition {self._partition} got no descriptor")

    # -- end

    def _end(self) -> None:
        for operator in self._operators:
            self._watch.enter(operator.node.id)
            operator.end_step()
        if self._header.final:
            for operator in self._operators:
                operator.end_input()

    def _acks(self) -> list[SubtaskAck]:
        """What each operator did; writes the deltas. User code runs here too (close, gauges, pickling of values)."""
        acks: list[SubtaskAck] = []
        try:
            for operator in self._operators:
                self._watch.enter(operator.node.id)
                with _naming(operator):
                    acks.append(self._acknowledging.of(operator))
            if self._header.final:
                for operator in self._operators:
                    operator.close()
        except Exception as error:
            self._take(error)
        return acks

    def _finish_writers(self) -> dict[int, Ends]:
        """By edge, how the channels end."""
        ends: dict[int, Ends] = {}
        try:
            for writer in self._writers:
                ends[writer.edge.index] = writer.finish()
        except (UserCodeError, BeadlineError) as error:
            self._fail(error)
        return ends

    def _send_barriers(self, sent: dict[int, Ends], digest: str) -> None:
        last = (1 << 62) - 1
        for node in self._plan.nodes_of(self._level, self._partition):
            for edge in node.outputs:
                if not edge.exchange:
                    continue
                target = self._plan.nodes[edge.target]
                failed = self._out or edge.index not in sent
                barriers = [(i, last, 0, "") for i in range(target.parallelism)] if failed else sent[edge.index]
                for destination, seq, count, channel_digest in barriers:
                    payload = pickle.dumps((count, channel_digest, self._level, self._partition, digest, failed), 5)
                    channel = edge.channel(self._partition)
                    self._buffer.add(WireRow(destination, target.level, channel, seq, BARRIER, payload))

    def _acknowledge(self, acks: list[SubtaskAck], digest: str) -> None:
        ack = TaskAck(self._level, self._partition, digest, self._consumed, acks, self._failure, self._skipped)
        ack.printed = self.printed.finish()
        ack.sent_bytes = sum(writer.sent_bytes for writer in self._writers)
        self._count_bytes(acks)
        self._watch.stop()
        self._execution.ledger.add(self._partition, self._watch)
        if self._out:
            ack.subtasks = []
        if self._is_last:
            # Earlier levels leave these out: an exchange must carry nothing that differs in an equal re-run.
            ack.executor = str(os.getppid())  # the worker's daemon: one per executor
            ack.worker = os.getpid()
            ack.seconds = time.perf_counter() - self._started
            ack.busy = self._execution.ledger.take()
        width = self._plan.width(self._level + 1) if not self._is_last else 1
        payload = dumps(ack)
        self._buffer.add(WireRow(self._partition % width, DRIVER, 0, 0, ACK, payload))

    def _count_bytes(self, acks: list[SubtaskAck]) -> None:
        for ack in acks:
            operator = self._by_node[ack.node]
            ack.bytes_out = sum(writer.sent_bytes for writer in operator.writers.values())
            ack.bytes_in = sum(self._bytes_in.get(edge.index, 0) for edge in operator.node.inputs)

    def _keep(self) -> None:
        if not self._out and not self._header.final:
            self._execution.operators[self._level, self._partition] = self._operators
