"""Checkpoints in an object store: a server that speaks S3, on loopback. It knows no folders and no rename."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from tests.recovery.drivers import Driver
from tests.recovery.jobs import STEP, differences, leftovers, visible

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

RECORDS = 25 * STEP
PACE = 0.01


@dataclass(frozen=True)
class Bucket:
    files: fs.S3FileSystem
    uri: str

    def paths(self) -> list[str]:
        """All objects, without the random name of the job's folder."""
        found = self.files.get_file_info(fs.FileSelector("bucket", recursive=True))
        return sorted(info.path.split("/", 3)[-1] for info in found if info.type == fs.FileType.File)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)  # drivers get these too
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells of each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        place = {"endpoint_override": f"{host}:{port}", "scheme": "http"}
        files = fs.S3FileSystem(**place, allow_bucket_creation=True)
        files.create_dir("bucket")
        yield Bucket(files, f"s3://bucket/checkpoints?{urlencode(place)}")
    finally:
        server.stop()


def test_drivers_are_killed_and_the_job_goes_on_from_the_store(
    bucket: Bucket, tmp_path: Path, drivers: list[Driver]
) -> None:
    options = {"execution.checkpointing.dir": bucket.uri, "execution.checkpointing.data-inline-threshold": "0"}
    seen = 0
    for resume in (None, "latest"):
        driver = Driver(tmp_path, RECORDS, PACE, resume, options)
        drivers.append(driver)
        # Output appears when a checkpoint has completed.
        driver.wait_until(lambda before=seen: len(visible(tmp_path)) > before, "new output")
        driver.kill()
        lines = visible(tmp_path)
        assert differences(lines, RECORDS, whole=False) == []
        seen = len(lines)
    assert seen < RECORDS, "the kills came in the middle"
    left = bucket.paths()
    assert any(re.fullmatch(r"chk-\d+/_metadata", path) for path in left), left
    assert any(path.startswith("shared/") for path in left), left
    last = Driver(tmp_path, RECORDS, PACE, "latest", options)
    drivers.append(last)
    assert last.end() == 0, last
    assert "restored from" in last.said
    assert differences(visible(tmp_path), RECORDS) == []
    assert leftovers(tmp_path) == []
    assert bucket.paths() == ["ended"], "a job that has finished needs no checkpoint"
