"""``beadline run --engine local``: a job in one process, from its first line to its last."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import beadline as package

Write = Callable[[str, str], Path]

COUNTS = """
    import sys

    from beadline.common import Types
    from beadline.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    words = env.from_collection("the bead the line the bead".split(), Types.STRING())
    pairs = words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    pairs.key_by(lambda pair: pair[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    env.execute("counts")
"""


def run_python(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class TestWithoutSpark:
    def test_a_keyed_job_needs_no_java_and_imports_no_pyspark(self, write: Write, tmp_path: Path) -> None:
        script = write(
            "job.py",
            COUNTS
            + """
    heavy = ("pyspark", "py4j", "pandas", "pyarrow.dataset", "boto3", "rocksdict")
    print([name for name in heavy if name in sys.modules])
    """,
        )

        result = run_python(
            str(script), BEADLINE_ENGINE="local", PATH=str(tmp_path), JAVA_HOME=str(tmp_path / "no java")
        )

        assert result.stderr == ""
        *counts, heavy = result.stdout.splitlines()
        assert sorted(line.partition("> ")[2] for line in counts) == [
            "(bead,1)",
            "(bead,2)",
            "(line,1)",
            "(the,1)",
            "(the,2)",
            "(the,3)",
        ]
        assert heavy == "[]"
