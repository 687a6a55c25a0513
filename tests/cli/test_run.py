from __future__ import annotations

import json
import subprocess
import sys

import pytest

from beadline import __version__


def test_version(beadline):
    result = beadline("--version")

    assert result.stdout == f"beadline {__version__}\n"
    assert result.returncode == 0


def test_an_import_of_pyflink_without_the_option_for_it(beadline, write):
    write("job.py", "import sys\n\nfrom pyflink.datastream import StreamExecutionEnvironment\n")

    result = beadline("run", "job.py")

    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == "error: No module named 'pyflink'"
    assert "/job.py, line 3" in result.stderr
    assert "beadline run --pyflink job.py" in result.stderr
    assert "Traceback" not in result.stderr


class TestExecuteWasForgotten:
    PROGRAM = """
    from beadline.datastream import StreamExecutionEnvironment

    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1).from_collection([1]).print()
        return env

    """

    def test_the_program_fails(self, beadline, write):
        write("job.py", self.PROGRAM + "build()\n")

        result = beadline("run", "--engine", "local", "job.py")

        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == (
            "error: job.py: the program has ended, and execute() was not called after operator 'Collection Source' "
            "(job.py:6) was made: no job has run it. Call env.execute() at the end.\n"
        )

    def test_after_a_job_it_is_a_warning(self, beadline, write):
        write("job.py", self.PROGRAM + "build().execute()\n    build()\n")

        result = beadline("run", "--engine", "local", "job.py")

        assert (result.returncode, result.stdout) == (0, "1\n")
        assert "warning: job.py: the program has ended, and execute() was not called" in result.stderr

    def test_who_only_asks_for_the_plan_has_not_forgotten_it(self, beadline, write):
        write("job.py", self.PROGRAM + "build().get_execution_plan()\n")

        result = beadline("run", "job.py")

        assert (result.returncode, result.stderr) == (0, "")


class TestWhatTheScriptSees:
    def test_it_is_the_main_module(self, beadline, write):
        write(
            "job.py",
            """
            import sys

            main = sys.modules["__main__"]
            assert __name__ == "__main__"
            assert main.__dict__ is globals()
            print(main.__file__)
            """,
        )

        result = beadline("run", "job.py")

        assert result.stderr == ""
        assert result.stdout.rstrip().endswith("/job.py")

    def test_everything_behind_its_name_is_its_own(self, beadline, write):
        write("job.py", "import json, sys; print(json.dumps(sys.argv))")

        result = beadline("run", "-p", "2", "job.py", "-p", "9", "--version", "--", "-Dx", "in.txt", "--help")

        assert json.loads(result.stdout) == ["job.py", "-p", "9", "--version", "--", "-Dx", "in.txt", "--help"]

    def test_its_folder_comes_first_on_the_path(self, beadline, write):
        write("jobs/neighbour.py", "GREETING = 'found'")
        write("jobs/job.py", "import neighbour, sys; print(neighbour.GREETING, sys.path[0])")

        result = beadline("run", "jobs/job.py")

        assert result.stdout.startswith("found /")
        assert result.stdout.rstrip().endswith("/jobs")

    def test_it_does_not_inherit_future_imports(self, beadline, write):
        write(
            "job.py",
            """
            def f(x: int): ...
            print(f.__annotations__["x"] is int)
            """,
        )

        assert beadline("run", "job.py").stdout == "True\n"

    def test_options_of_the_job(self, beadline, write):
        write("job.py", "from beadline.common.outer_options import get_overrides; print(get_overrides())")

        result = beadline("run", "-p", "4", "-D", "a.b=1", "-Dc=x=y", "-D", "empty=", "job.py")

        assert result.stdout == "{'a.b': '1', 'c': 'x=y', 'empty': '', 'parallelism.default': '4'}\n"

    def test_its_threads_still_see_it_when_its_last_line_has_run(self, beadline, write):
        write(
            "job.py",
            """
            import sys, threading, time

            def later():
                time.sleep(0.3)
                print(sys.modules["__main__"].__dict__.get("MARK"))

            MARK = "still here"
            threading.Thread(target=later).start()
            """,
        )

        assert beadline("run", "job.py").stdout == "still here\n"


def test_functions_and_classes_of_the_script_are_pickled_by_value(beadline, write, tmp_path):
    write(
        "job.py",
        """
        from __future__ import annotations
        import cloudpickle
        from dataclasses import dataclass, field

        FACTOR = 3

        @dataclass
        class Reading:
            value: int
            history: list[int] = field(default_factory=list)

        def times(reading):
            return Reading(reading.value * FACTOR, [reading.value])

        with open("pickled", "wb") as out:
            cloudpickle.dump((times, Reading(14)), out)
        """,
    )
    result = beadline("run", "job.py")
    assert result.stderr == ""
    (tmp_path / "job.py").unlink()  # whoever loads it now has nothing but the pickle

    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pickle; f, r = pickle.load(open('pickled', 'rb')); print(f(r).value, f(r).history)",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert loaded.stdout == "42 [14]\n"


class TestHowItEnds:
    def test_exit_code_of_the_script(self, beadline, write):
        write("job.py", "import sys; sys.exit(7)")

        result = beadline("run", "job.py")

        assert (result.returncode, result.stderr) == (7, "")

    def test_exit_with_a_message(self, beadline, write):
        write("job.py", "import sys; sys.exit('no input given')")

        result = beadline("run", "job.py")

        assert (result.returncode, result.stderr) == (1, "no input given\n")

    def test_error_of_beadline_shows_its_message_and_the_users_line(self, beadline, write):
        job = write(
            "job.py",
            """\
            from beadline.errors import ConfigurationError

            def configure():
                raise ConfigurationError("parallelism is 0; give 1 or more")

            configure()
            """,
        )

        result = beadline("run", "job.py")

        assert result.returncode == 1
        assert result.stderr == (
            "error: parallelism is 0; give 1 or more\n"
            f'  at {job}, line 4: raise ConfigurationError("parallelism is 0; give 1 or more")\n'
        )

    def test_error_inside_beadline_points_at_the_line_that_called_it(self, beadline, write):
        job = write("job.py", "import pyflink.fn_execution.beam  # not there\n")

        result = beadline("run", "--pyflink", "job.py")

        assert result.returncode == 1
        assert result.stderr.splitlines()[-1] == f"  at {job}, line 1: import pyflink.fn_execution.beam  # not there"
        assert "Traceback" not in result.stderr

    def test_notes_of_an_error_are_shown_and_its_cause_is_not(self, beadline, write):
        job = write(
            "job.py",
            """\
            from beadline.errors import JobExecutionError

            error = JobExecutionError("map failed", operator="map")
            error.add_note("  at helpers.py, line 7, in parse: int(text)")
            error.add_note("Set it right.")
            raise error from ValueError("no number")
            """,
        )

        result = beadline("run", "job.py")

        assert result.returncode == 1
        assert result.stderr.splitlines() == [
            "error: map failed",
            "  at helpers.py, line 7, in parse: int(text)",
            f'  at {job}, line 6: raise error from ValueError("no number")',
            "Set it right.",
        ]

    @pytest.mark.parametrize("option", ["-v", "--verbose"])
    def test_everything_is_shown_on_demand(self, beadline, write, option):
        write(
            "job.py",
            """
            from beadline.errors import JobExecutionError
            raise JobExecutionError("map failed") from ValueError("no number")
            """,
        )

        result = beadline("run", option, "job.py")

        assert result.returncode == 1
        lines = result.stderr.splitlines()
        assert lines[0] == "ValueError: no number"
        assert lines[-1] == "beadline.errors.JobExecutionError: map failed"
        assert "Traceback (most recent call last):" in lines

    def test_any_other_error_is_shown_from_the_script_on(self, beadline, write):
        job = write("job.py", "def f():\n    return 1 / 0\n\nf()\n")

        result = beadline("run", "job.py")

        assert result.returncode == 1
        lines = result.stderr.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[1] == f'  File "{job}", line 4, in <module>'
        assert lines[-1] == "ZeroDivisionError: division by zero"
        assert "beadline" not in result.stderr

    def test_syntax_error(self, beadline, write):
        job = write("job.py", "print('never')\nx = = 1\n")

        result = beadline("run", "job.py")

        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f'  File "{job}", line 2')
        assert result.stderr.rstrip().endswith("SyntaxError: invalid syntax")

    def test_interrupt(self, beadline, write):
        write("job.py", "raise KeyboardInterrupt")

        result = beadline("run", "job.py")

        assert result.returncode == 130
        assert "Traceback" not in result.stderr


class TestWhatIsRefused:
    def test_missing_script(self, beadline):
        result = beadline("run", "nowhere.py")

        assert result.returncode == 2
        assert result.stderr == "error: can't run nowhere.py: there is no such file.\n"

    def test_folder(self, beadline, tmp_path):
        (tmp_path / "jobs").mkdir()

        result = beadline("run", "jobs")

        assert result.returncode == 2
        assert result.stderr == "error: can't run jobs: it is a directory.\n"

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["-D", "novalue"], "not of the form key=value"),
            (["-D", "=1"], "not of the form key=value"),
            (["-p", "0"], "Invalid value for '-p'"),
            (["-p", "2", "-D", "parallelism.default=3"], "disagree"),
            (["--nonsense"], "No such option: --nonsense"),
        ],
    )
    def test_bad_options(self, beadline, write, options, complaint):
        write("job.py", "print('ran')")

        result = beadline("run", *options, "job.py")

        assert (result.returncode, result.stdout) == (2, "")
        assert complaint in result.stderr


def test_what_a_job_starts_from_are_options_of_the_job(beadline, write):
    write("job.py", "from beadline.common.outer_options import get_overrides; print(get_overrides())")

    result = beadline("run", "-s", "sp-1", "-n", "--claim-mode", "claim", "job.py")

    assert result.stderr == ""
    assert result.stdout.strip() == str(
        {
            "execution.state-recovery.path": "sp-1",
            "execution.state-recovery.ignore-unclaimed-state": "true",
            "execution.state-recovery.claim-mode": "claim",
        }
    )
