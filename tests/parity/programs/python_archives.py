"""What env.add_python_archive() puts into the workers' folder."""

import tempfile
import zipfile

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def zipped(name, inside, text):
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr(inside, text)
    return name


def use_archives(text):
    with open("words/data/endings.txt") as file:
        ending = file.read().strip()
    with open("plain.zip/note.txt") as file:
        return text + ending + file.read().strip()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    made = tempfile.mkdtemp()
    env.add_python_archive(zipped(f"{made}/archive.zip", "data/endings.txt", "!\n"), "words")
    env.add_python_archive(zipped(f"{made}/plain.zip", "note.txt", "?\n"))
    env.from_collection(["Bead", "Line"], Types.STRING()).map(use_archives, Types.STRING()).print()
    env.execute("archives")


if __name__ == "__main__":
    main()
