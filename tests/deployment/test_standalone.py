"""``spark-submit`` on a cluster with a master and two workers, as docs/deployment.md describes it."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment.standalone import StandaloneCluster

ROOT = Path(__file__).parents[2]

PROGRAM = """\
import sys

from beadline.common import RestartStrategies, Types
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor

import pricing


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, order, ctx):
        self.total.update((self.total.value() or 0) + pricing.price(order))
        yield ctx.get_current_key(), self.total.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.set_restart_strategy(RestartStrategies.no_restart())
env.enable_checkpointing(1000)
env.get_checkpoint_config().set_checkpoint_storage_dir(sys.argv[1])
orders = env.from_sequence(1, 1000)
totals = orders.key_by(lambda order: f"customer-{order % 10}", Types.STRING()).process(Total()).uid("totals")
with totals.execute_and_collect("orders") as results:
    found = list(results)
last = {}
for customer, total in found:
    last[customer] = total
expected = {f"customer-{n}": sum(2 * o for o in range(1, 1001) if o % 10 == n) for n in range(10)}
print("right:", last == expected)
"""
PRICING = "def price(order):\n    return 2 * order\n"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), environment) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.spark
class TestSparkSubmit:
    def test_modules_next_to_the_program_go_along_by_themselves(self, standalone, tmp_path):
        (tmp_path / "job.py").write_text(PROGRAM)
        (tmp_path / "pricing.py").write_text(PRICING)

        before = standalone.executors()
        done = standalone.submit("job.py", str(tmp_path / "checkpoints"), cwd=tmp_path)

        assert done.returncode == 0, done.stderr[-3000:]
        # Spark puts what the program logs there too.
        assert done.stdout.splitlines()[-1] == "right: True"
        assert standalone.executors() == before + 2

    def test_modules_in_py_files(self, standalone, tmp_path):
        (tmp_path / "job.py").write_text(PROGRAM)
        with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
            archive.writestr("pricing.py", PRICING)

        before = standalone.executors()
        done = standalone.submit("--py-files", "modules.zip", "job.py", str(tmp_path / "checkpoints"), cwd=tmp_path)

        assert done.returncode == 0, done.stderr[-3000:]
        # Spark puts what the program logs there too.
        assert done.stdout.splitlines()[-1] == "right: True"
        assert standalone.executors() == before + 2
