"""What a program asks to have in its workers is checked when it asks."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.environment import options
from beadline.errors import ConfigurationError, EnvironmentSetupError, UnsupportedFeatureError
from beadline.master.shipping.dependencies import PythonArchive, Requirements, requirements_archive


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def zipped(path: Path, inside: str = "note.txt") -> str:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(inside, "text")
    return str(path)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda env, here: env.add_python_file(f"{here}/missing.py"), "there is no .*missing.py"),
        (lambda env, here: env.add_python_file(f"{here}/plain.txt"), "plain.txt is not a folder, and not a module"),
        (lambda env, here: env.add_python_file("hdfs://name/x.py"), "not on this machine"),
        (lambda env, here: env.add_python_archive(f"{here}/plain.txt"), "plain.txt is not an archive"),
        (lambda env, here: env.add_python_archive(f"{here}/false.zip"), "false.zip is not an archive"),
        (lambda env, here: env.add_python_archive(f"{here}/true.zip", "../up"), "relative path below"),
        (lambda env, here: env.add_python_archive(f"{here}/true.zip", "/absolute"), "relative path below"),
        (lambda env, here: env.add_python_archive(str(here)), "is a folder"),
        (lambda env, here: env.set_python_requirements(f"{here}/none.txt"), "there is no .*none.txt"),
        (lambda env, here: env.set_python_requirements(f"{here}/plain.txt", f"{here}/none"), "there is no folder"),
        (lambda env, here: env.register_cached_file(f"{here}/none", "x"), "there is no .*none"),
    ],
)
def test_what_is_not_there_is_told_at_once(env: Any, tmp_path: Path, use: Any, message: str) -> None:
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "false.zip").write_text("text")
    zipped(tmp_path / "true.zip")
    with pytest.raises(ConfigurationError, match=message):
        use(env, tmp_path)


def test_options_say_the_same_as_methods(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip")
    (tmp_path / "r.txt").write_text("")
    configuration = Configuration()
    configuration.set_string("python.archives", f"{archive}, {archive}#other")
    configuration.set_string("python.requirements", f"{tmp_path}/r.txt#{tmp_path}")
    assert options.python_archives(configuration) == [PythonArchive(archive, "a.zip"), PythonArchive(archive, "other")]
    assert options.python_requirements(configuration) == Requirements(f"{tmp_path}/r.txt", str(tmp_path))


def test_two_of_one_name_are_refused(env: Any, tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip")
    env.add_python_archive(archive, "data")
    env.add_python_archive(archive, "./data")
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="2 archives are to be unpacked as 'data'"):
        env.execute()


def test_python_can_not_come_from_an_archive(env: Any, tmp_path: Path) -> None:
    env.add_python_archive(zipped(tmp_path / "venv.zip"))
    env.set_python_executable("venv.zip/venv/bin/python")
    env.from_collection([1]).print()
    with pytest.raises(UnsupportedFeatureError, match="spark-submit --archives"):
        env.execute()


def test_requirements_are_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheels, info = tmp_path / "wheels", "beadwheel-1.5.dist-info"
    wheels.mkdir()
    files = {
        "beadwheel/__init__.py": "NAME = 'wheel'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: beadwheel\nVersion: 1.5\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheels / "beadwheel-1.5-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    (tmp_path / "more.txt").write_text("beadwheel==1.5\n")
    (tmp_path / "requirements.txt").write_text("-r more.txt\n")
    requirements = Requirements(str(tmp_path / "requirements.txt"), str(wheels))
    made = requirements_archive(requirements)
    with zipfile.ZipFile(made) as archive:
        assert archive.read("beadwheel/__init__.py") == b"NAME = 'wheel'\n"

    calls: list[Any] = []
    real = subprocess.run

    def counted(command: list[str], **more: Any) -> Any:
        calls.append(command)
        return real(command, **more)

    monkeypatch.setattr(subprocess, "run", counted)
    assert requirements_archive(requirements) == made
    assert calls == []
    (tmp_path / "more.txt").write_text("beadwheel==1.6\n")
    with pytest.raises(EnvironmentSetupError) as failure:
        requirements_archive(requirements)
    assert len(calls) == 1
    assert "beadwheel==1.6" in str(failure.value)
    assert "pip download" in str(failure.value)
    assert len(str(failure.value).splitlines()) < 10
    assert [path.name for path in made.parent.iterdir()] == [made.name]
