"""-pyfs, -pyreq and -pyarch, as Flink's command has them."""

from __future__ import annotations

from typing import Any

PROGRAM = """
import helper
from beadline.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(helper.twice).print()
env.execute("with a helper")
"""


def test_files_of_the_command_line_can_be_imported(beadline: Any, write: Any) -> None:
    write("lib/helper.py", "def twice(value):\n    return 2 * value\n")
    write("job.py", PROGRAM)
    ran = beadline("run", "-q", "--engine", "local", "-p", "1", "-pyfs", "lib/helper.py", "job.py")
    assert ran.stdout.split() == ["2", "4"], ran.stderr
    ran = beadline("run", "-q", "--engine", "local", "-p", "1", "--pyFiles", "lib", "job.py")
    assert ran.stdout.split() == ["2", "4"], ran.stderr


def test_switches_are_options_of_the_job(beadline: Any, write: Any) -> None:
    write(
        "job.py",
        "from beadline.datastream import StreamExecutionEnvironment as Environment\n"
        "found = Environment.get_execution_environment()._configuration\n"
        "print(found.get_string('python.requirements', ''), found.get_string('python.archives', ''))\n",
    )
    ran = beadline("run", "-pyreq", "needs.txt#wheels", "-pyarch", "data.zip#data", "job.py")
    assert ran.stdout == "needs.txt#wheels data.zip#data\n", ran.stderr
    ran = beadline("run", "-D", "python.files=a", "-pyfs", "b", "job.py")
    assert ran.returncode == 2
    assert "python.files is given twice" in ran.stderr
