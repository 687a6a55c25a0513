"""Programs of several files, started in every way, with workers on the same machine and in executors of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import beadline as package
from beadline.master.spark import class_archive
from tests.nightly import NIGHTLY
from tests.sessions import QUICK_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(package.__file__).parents[1]
PARITY = Path(__file__).parents[1] / "parity"

sys.path.insert(0, str(PARITY))

from normalise import normalise  # noqa: E402

# Executors that live for seconds.
EXECUTORS = "local-cluster[2,1,1024]" if NIGHTLY else "local-cluster[1,2,1024]"
QUICK_EXECUTORS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}


def run(*command: str, cwd: Path, **environment: str) -> str:
    cache = cwd / "cache" / "beadline"
    cache.mkdir(parents=True)
    if (archive := class_archive.find()) is not None:
        (cache / archive.name).symlink_to(archive)  # all else begins with an empty cache
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cwd / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_beadline_run_from_elsewhere_through_a_link(tmp_path: Path) -> None:
    shutil.copytree(PARITY / "programs" / "several_modules", tmp_path / "the job")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "job.py").symlink_to(tmp_path / "the job" / "main.py")
    output = run(sys.executable, "-m", "beadline.cli.main", "run", "--pyflink", "away/job.py", cwd=tmp_path)
    expected = (PARITY / "expected" / "several_modules.txt").read_text(encoding="utf-8").splitlines()
    assert normalise(output) == expected


def test_spark_submit(tmp_path: Path) -> None:
    shutil.copytree(PARITY / "programs" / "several_package", tmp_path / "the job")
    main = tmp_path / "the job" / "main.py"
    main.write_text("from beadline import pyflink_alias\npyflink_alias.install()\n" + main.read_text(encoding="utf-8"))
    submit = Path(sys.executable).parent / "spark-submit"
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    options += ["--driver-java-options", QUICK_JAVA]
    python = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    output = run(str(submit), *options, str(main), cwd=tmp_path, **python)
    expected = (PARITY / "expected" / "several_package.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in normalise(output) if " articles, " in line] == expected


CLUSTER_PROGRAM = {
    "app/__init__.py": "",
    "app/main.py": """
import importlib, json, os, sys
from pathlib import Path

from beadline import pyflink_alias

pyflink_alias.install()
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment

from . import functions
from shared.model import Seen

HERE = Path(__file__).parents[1]


def environment(**options):
    configuration = Configuration()
    for key, value in {"parallelism.default": "2", **options}.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def with_everything():
    env = environment(**{"python.archives": f"{HERE / 'plain.zip'}#from option"})
    env.add_python_file(str(HERE / "elsewhere" / "added"))
    env.add_python_archive(str(HERE / "words.tar.gz"), "words/here")
    env.set_python_requirements(str(HERE / "requirements.txt"), str(HERE / "wheels"))
    env.register_cached_file(str(HERE / "say.sh"), "say", executable=True)
    env.register_cached_file(str(HERE / "folder"), "a folder")
    stream = env.from_collection(["a", "b", "a"]).key_by(lambda value: value)
    stream = stream.process(functions.Report()).uid("report")
    return list(stream.execute_and_collect("everything"))


def edited():
    found = []
    for version in ("one", "two", "one"):
        Path(functions.__file__).with_name("version.py").write_text(f"VERSION = '{version}'" + chr(10))
        env = environment()
        found.append(list(env.from_collection([1]).map(functions.version).execute_and_collect())[0])
    return found


def twins():
    jobs, found = {}, {}
    for name in ("first", "second"):
        sys.path.insert(0, str(HERE / name))
        importlib.invalidate_caches()
        env = environment(**{"beadline.step.max-records": "20", "beadline.step.first-records": "20"})
        jobs[name] = env.from_sequence(1, 60).map(twin_of).execute_and_collect()
        found[name] = {next(jobs[name])}  # it has begun
        sys.path.remove(str(HERE / name))
    return {name: sorted({*found[name], *jobs[name]}) for name in jobs}


def twin_of(value):
    import twin
    return twin.NAME


def in_tasks():
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from beadline.state_processor.tasks import Tasks

    tasks = Tasks(SparkSession.getActiveSession())
    return [row[0] for row in tasks.over([Seen()], functions.counts, pa.schema([("count", pa.int64())])).collect()]


if __name__ == "__main__":
    print(json.dumps({"reports": with_everything(), "edited": edited(), "twins": twins(), "in tasks": in_tasks()}))
""",
    "app/functions.py": """
import os, subprocess
from pathlib import Path

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

from shared.model import Seen


class Report(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))
        self.cache = runtime_context.get_distributed_cache()

    def process_element(self, value, ctx):
        import added, beadwheel
        from added import part
        from shared import later

        seen = self.seen.value() or Seen()
        seen.count += 1
        self.seen.update(seen)
        yield {
            "value": value,
            "count": seen.count,
            "data": (Path(__file__).parent / "data" / "note.txt").read_text(),
            "shipped": ["/code-" in file for file in (__file__, later.__file__)],
            "later": later.NAME,
            "added": [added.NAME, part.NAME],
            "wheel": beadwheel.NAME,
            "archives": [Path("words/here/note.txt").read_text(), Path("from option/note.txt").read_text()],
            "said": subprocess.run([self.cache.get_file("say")], capture_output=True, text=True).stdout,
            "folder": sorted(os.listdir(self.cache.get_file("a folder"))),
        }


def counts(seen):
    import pyarrow as pa

    yield pa.record_batch({"count": [seen.count]})


def version(value):
    from .version import VERSION
    return VERSION
""",
    "app/version.py": "VERSION = 'zero'\n",
    "app/data/note.txt": "next to the module",
    "shared/model.py": "from pyflink.common import Row\n\n\nclass Seen:\n    count = 0\n",
    "shared/later.py": "NAME = 'later'\n",
    "elsewhere/added/__init__.py": "NAME = 'added'\n",
    "elsewhere/added/part.py": "NAME = 'part'\n",
    "requirements.txt": "beadwheel\n",
    "say.sh": "#!/bin/sh\necho said\n",
    "folder/one": "1",
    "first/twin.py": "NAME = 'first'\n",
    "second/twin.py": "NAME = 'second'\n",
}


def pack(folder: Path) -> None:
    info = "beadwheel-1.5.dist-info"
    files = {
        "beadwheel/__init__.py": "NAME = 'wheel'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: beadwheel\nVersion: 1.5\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    (folder / "wheels").mkdir()
    with zipfile.ZipFile(folder / "wheels" / "beadwheel-1.5-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    write(folder, {"note.txt": "in an archive"})
    with tarfile.open(folder / "words.tar.gz", "w:gz") as words:
        words.add(folder / "note.txt", "note.txt")
    with zipfile.ZipFile(folder / "plain.zip", "w") as plain:
        plain.write(folder / "note.txt", "note.txt")


def test_executors_of_their_own_get_everything(tmp_path: Path) -> None:
    """On a local cluster: modules, what the program adds by hand, code that changes between jobs, and two jobs at once
    that have different modules of one name."""
    write(tmp_path, CLUSTER_PROGRAM)
    pack(tmp_path)
    output = run(sys.executable, "-m", "app.main", cwd=tmp_path, BEADLINE_MASTER=EXECUTORS, **QUICK_EXECUTORS)
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert sorted((report.pop("value"), report.pop("count")) for report in answer["reports"]) == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]
    for report in answer["reports"]:
        assert report == {
            "data": "next to the module",
            "shipped": [True, True],
            "later": "later",
            "added": ["added", "part"],
            "wheel": "wheel",
            "archives": ["in an archive", "in an archive"],
            "said": "said\n",
            "folder": ["one"],
        }
    assert answer["edited"] == ["one", "two", "one"]
    assert answer["in tasks"] == [0]
    assert answer["twins"] == {"first": ["first"], "second": ["second"]}
