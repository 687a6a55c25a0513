"""``beadline prepare``: make sessions of this machine start faster."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import typer


def prepare() -> None:
    """Write an archive of Spark's classes, some 150 MB in the user's cache folder: Spark then starts in little more
    than half the time. A new Java or PySpark needs a new one; without one that fits, Spark starts as before."""
    from beadline.errors import EnvironmentSetupError
    from beadline.master.spark import class_archive
    from beadline.master.spark.session import check_java

    check_java()
    folder = class_archive.folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as scratch:
        path = Path(scratch) / "classes.jsa"
        # Java writes the file when it ends, after its Python process; it holds the pipes until then.
        done = subprocess.run(
            [sys.executable, "-m", "beadline.cli.prepare", str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode or not path.exists():
            raise EnvironmentSetupError(f"Java wrote no archive of its classes to {path}:\n{done.stderr[-2000:]}")
        kept = class_archive.keep(path)
    typer.echo(f"Spark will start faster from now on, with the classes in {kept}")


def _load_classes(path: Path) -> None:
    """Run a job that uses what most jobs use, in a JVM that writes down what it loads."""
    from beadline.common import Types
    from beadline.datastream import StreamExecutionEnvironment
    from beadline.master.spark import class_archive
    from beadline.master.spark.session import find_session

    session = find_session(class_archive.options_to_write(path))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_sequence(1, 20_000).map(lambda number: (number % 100, 1), Types.TUPLE([Types.LONG()] * 2))
    counted = numbers.key_by(lambda pair: pair[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1]))
    for _ in counted.execute_and_collect("classes"):
        pass
    session.stop()


if __name__ == "__main__":
    _load_classes(Path(sys.argv[1]))
