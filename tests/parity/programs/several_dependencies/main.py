"""What env.add_python_file() and set_python_requirements() put into the workers."""

import os
import tempfile
import zipfile

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))


def zipped(name, files):
    with zipfile.ZipFile(name, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return name


def wheel(folder):
    info = "beadwheel-1.5.dist-info"
    os.makedirs(folder, exist_ok=True)
    zipped(
        os.path.join(folder, "beadwheel-1.5-py3-none-any.whl"),
        {
            "beadwheel/__init__.py": "def turn(text):\n    return text[::-1]\n",
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: beadwheel\nVersion: 1.5\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": f"beadwheel/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        },
    )
    return folder


def use_module(text):
    import added_module

    return added_module.shout(text)


def use_folder(text):
    from in_folder import softly

    return softly(text)


def use_zip(text):
    import zipped_module

    return zipped_module.quote(text)


def use_requirements(text):
    import beadwheel

    return beadwheel.turn(text)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    made = tempfile.mkdtemp()
    env.add_python_file(os.path.join(HERE, "added_module.py"))
    env.add_python_file(os.path.join(HERE, "tools"))
    env.add_python_file(
        zipped(f"{made}/modules.zip", {"zipped_module.py": "def quote(text):\n    return f'<{text}>'\n"})
    )
    with open(f"{made}/requirements.txt", "w") as file:
        file.write("beadwheel==1.5\n")
    env.set_python_requirements(f"{made}/requirements.txt", wheel(f"{made}/wheels"))
    words = env.from_collection(["Bead", "Line"], Types.STRING())
    for use in (use_module, use_folder, use_zip, use_requirements):
        words = words.map(use, Types.STRING())
    words.print()
    env.execute("dependencies")


if __name__ == "__main__":
    main()
