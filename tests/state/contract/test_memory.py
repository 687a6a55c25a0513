"""State several times the memory limit. It runs in a process of its own, whose memory nobody else uses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rocksdict")
pytest.importorskip("psutil")

PROGRAM = '''
import json, os, random, sys
from pathlib import Path
import psutil
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.state.backend_settings import RocksSettings
from tests.state.contract.subject import ANY, ROCKSDB, Subject

KEYS, PER_STEP, folder = 60_000, 3_000, Path(sys.argv[1])
subject = Subject(ROCKSDB, "kept", folder, (ValueStateDescriptor("v", ANY),), rocks=RocksSettings(memory=64 << 20))

def as_segment(content):
    """Segments in files: what they hold must not count as memory of the store."""
    segment = inline(content)
    if segment is None:
        return None
    path = folder / (segment.version + ".run")
    path.write_bytes(segment.inline)
    return type(segment)(segment.version, segment.entries, segment.size, path=str(path))

inline, subject.as_segment = subject.as_segment, as_segment

def value(key, turn):
    return random.Random(key * 7 + turn).randbytes(2_500) * 2

memory = psutil.Process().memory_info
with subject.step() as step:
    step.at("first")["v"].update(1)
before, peak = memory().rss, 0
turns = dict.fromkeys(range(KEYS), 0)
for start in range(0, KEYS, PER_STEP):
    with subject.step() as step:
        for key in range(start, start + PER_STEP):
            step.at(key)["v"].update(value(key, 0))
    peak = max(peak, memory().rss)
chance = random.Random(1)
for _ in range(10):
    with subject.step() as step:
        for key in chance.sample(range(KEYS), 2_000):
            assert step.at(key)["v"].value() == value(key, turns[key])
            turns[key] += 1
            step["v"].update(value(key, turns[key]))
    peak = max(peak, memory().rss)
subject.lose()  # and once more from the segments
with subject.step(fate="lost") as step:
    for key in chance.sample(range(KEYS), 2_000):
        assert step.at(key)["v"].value() == value(key, turns[key])
    peak = max(peak, memory().rss)
state = sum(path.stat().st_size for path in folder.glob("*.run"))
print(json.dumps({"grown": peak - before, "state": state}))
'''


@pytest.mark.slow
def test_memory_stays_within_bounds(folder: Path) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["state"] > 300 << 20
    # The limit, what is remembered, the overlays of two steps (15 MB each) and what Python does not give back.
    assert result["grown"] < 170 << 20, result
