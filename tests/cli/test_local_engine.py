"""``beadline run --engine local``: a job in one process, from its first line to its last."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import beadline as package

Command = Callable[..., "subprocess.CompletedProcess[str]"]
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


def run_python(*command: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1]), **environment},
        input=stdin,
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

    def test_other_names_are_refused_before_the_script_runs(self, beadline: Command, write: Write) -> None:
        write("job.py", "print('it runs')")

        result = beadline("run", "--engine", "flink", "job.py")

        assert (result.returncode, result.stdout) == (2, "")
        assert "--engine flink: it must be one of spark, resident, local" in result.stderr


class TestFunctions:
    def test_an_error_names_the_line_and_shows_what_was_printed(self, beadline: Command, write: Write) -> None:
        write(
            "job.py",
            """
            from beadline.common import Types
            from beadline.datastream import StreamExecutionEnvironment

            def check(n):
                print("seen", n)
                if n == 2:
                    raise ValueError("no twos")
                return n

            env = StreamExecutionEnvironment.get_execution_environment()
            env.set_parallelism(1)
            env.from_collection([1, 2, 3], Types.INT()).map(check, Types.INT()).print()
            env.execute("checks")
            """,
        )

        result = beadline("run", "--engine", "local", "job.py")

        assert (result.returncode, result.stdout) == (1, "seen 1\nseen 2\n")
        assert "error: operator 'Map' (job.py:13, subtask 0) failed at record 2: ValueError: no twos\n" in result.stderr
        assert 'job.py, line 8, in check: raise ValueError("no twos")\n' in result.stderr
        assert "Spark" not in result.stderr

    def test_sys_exit_ends_the_job_and_says_so(self, beadline: Command, write: Write) -> None:
        write(
            "job.py",
            """
            import sys
            from beadline.datastream import StreamExecutionEnvironment

            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([1]).map(lambda n: sys.exit(n + 3)).print()
            env.execute("exits")
            """,
        )

        result = beadline("run", "--engine", "local", "job.py")

        assert (result.returncode, result.stdout) == (1, "")
        assert "error: a function of the program called sys.exit(4)\n" in result.stderr

    def test_a_debugger_shows_its_prompt_and_takes_commands(self, write: Write) -> None:
        script = write(
            "job.py",
            """
            from beadline.common import Types
            from beadline.datastream import StreamExecutionEnvironment

            def look(n):
                if n == 2:
                    breakpoint()
                return n * 10

            env = StreamExecutionEnvironment.get_execution_environment()
            env.set_parallelism(1)
            env.from_collection([1, 2, 3], Types.INT()).map(look, Types.INT()).print()
            env.execute("looks")
            """,
        )

        result = run_python(
            str(script), stdin="p n + 40\nprint('typed', n)\n!n = 7\ncontinue\n", BEADLINE_ENGINE="local"
        )

        assert result.stderr == ""
        assert "-> return n * 10\n(Pdb) 42\n(Pdb) typed 2\n(Pdb) (Pdb) 10\n70\n30\n" in result.stdout

    def test_all_steps_run_in_one_thread(self, beadline: Command, write: Write) -> None:
        """As a connection to SQLite asks for."""
        write(
            "job.py",
            """
            import sqlite3
            from beadline.common import Types, WatermarkStrategy
            from beadline.datastream import StreamExecutionEnvironment
            from beadline.datastream.functions import MapFunction
            from beadline.testing import EndStep, TestSource

            class Stored(MapFunction):
                def open(self, context):
                    self.db = sqlite3.connect(":memory:")
                    self.db.execute("create table seen (n)")

                def map(self, n):
                    self.db.execute("insert into seen values (?)", (n,))
                    return self.db.execute("select count(*) from seen").fetchone()[0]

                def close(self):
                    self.db.close()
                    print("closed")

            env = StreamExecutionEnvironment.get_execution_environment()
            env.set_parallelism(1)
            source = TestSource([1, EndStep(), 2, EndStep(), 3])
            env.from_source(source, WatermarkStrategy.no_watermarks(), "three steps").map(Stored(), Types.INT()).print()
            env.execute("stored")
            """,
        )

        result = beadline("run", "--engine", "local", "job.py")

        assert (result.returncode, result.stdout.split()) == (0, ["1", "2", "3", "closed"]), result.stderr


class TestJobs:
    def test_two_at_a_time_keep_their_files_and_their_output_apart(self, beadline: Command, write: Write) -> None:
        write(
            "job.py",
            """
            from beadline.common import Types
            from beadline.datastream import StreamExecutionEnvironment
            from beadline.datastream.functions import MapFunction

            class Named(MapFunction):
                def open(self, context):
                    self.context = context

                def map(self, n):
                    with open(self.context.get_distributed_cache().get_file("name")) as file:
                        name = file.read()
                    print("half a line of", name, end=" ")
                    print("and its end")
                    return f"{name} {n}"

            def start(name):
                with open(name, "w") as file:
                    file.write(name)
                env = StreamExecutionEnvironment.get_execution_environment()
                env.set_parallelism(2)
                env.register_cached_file(name, "name")
                env.from_sequence(1, 400).map(Named(), Types.STRING()).print(name)
                return env.execute_async(name)

            clients = [start("red"), start("blue")]
            for client in clients:
                client.get_job_execution_result().result()
            """,
        )

        result = beadline("run", "--engine", "local", "job.py")

        assert result.returncode == 0, result.stderr
        lines = [re.sub(r":\d>", ">", line) for line in result.stdout.splitlines()]
        wanted = [f"{name}> {name} {n}" for name in ("red", "blue") for n in range(1, 401)]
        wanted += [f"half a line of {name} and its end" for name in ("red", "blue") for _ in range(400)]
        assert sorted(lines) == sorted(wanted)

    @pytest.mark.slow
    def test_a_function_that_is_slow_does_not_keep_a_cancelled_job(self, beadline: Command, write: Write) -> None:
        write(
            "job.py",
            """
            import sys, time
            from beadline.datastream import StreamExecutionEnvironment

            def start(seconds):
                env = StreamExecutionEnvironment.get_execution_environment()
                env.set_parallelism(1)

                def slow(n):
                    try:
                        time.sleep(seconds)
                    except Exception:
                        pass
                    return n

                env.from_sequence(1, 1000).map(slow).print()
                return env.execute_async("slow")

            for seconds in 0.1, 30:
                client = start(seconds)
                time.sleep(1)
                began = time.monotonic()
                client.cancel().result()
                print(client.get_job_status().result().name, time.monotonic() - began < 10)
            """,
        )

        result = beadline("run", "--engine", "local", "job.py")

        assert (result.returncode, result.stdout) == (0, "CANCELED True\nCANCELED True\n"), result.stderr
