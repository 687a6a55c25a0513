"""Where a file sink writes, and where it refuses to."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Encoder
from beadline.common.typeinfo import Types
from beadline.connectors.files import s3
from beadline.datastream.connectors.file_system import BucketAssigner, FileSink
from beadline.errors import ConfigurationError, EnvironmentSetupError, UnsupportedFeatureError
from tests.connectors.files.test_files import publish_all


def write(path: str, row: str = "row") -> None:
    """What a job does with a sink on that path."""
    builder = FileSink.for_row_format(path, Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()._make_sink(Types.STRING())
    sink.prepare("0123456789abcdef")
    stager = sink.stager(0, 1, 0)
    stager.write([row], None)
    committer = sink.committer()
    committer.sealed(stager.finish(), 0, True)
    publish_all(committer, committer.due(False))
    committer.close(discard=True)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("{root}/x", "x"),
        ("{root}/x/", "x"),
        ("file:{root}/x", "x"),
        ("file://{root}/x", "x"),
        ("file://localhost{root}/x", "x"),
        ("file:{root}/a%20b", "a b"),
        ("{root}/a b", "a b"),
        ("{root}/a%20b", "a%20b"),
        ("{root}/a?b#c", "a?b#c"),
        ("out/x", "out/x"),
        ("file:out/x", "out/x"),
    ],
)
def test_a_local_path_may_be_spelt_in_many_ways(
    path: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(path.format(root=tmp_path))
    assert [p.read_text() for p in (tmp_path / folder).iterdir()] == ["row\n"]
    (found,) = os.listdir(tmp_path)
    assert found == folder.partition("/")[0], "and nothing else is made"


def test_a_relative_path_stays_where_the_job_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sink: Any = FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()._make_sink(Types.STRING())
    sink.prepare("0123456789abcdef")
    assert sink.base_path == str(tmp_path / "out")


def test_a_host_that_is_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"file://out/x names the host 'out'.* write file:///out"):
        FileSink.for_row_format("file://out/x", Encoder.simple_string_encoder())


@pytest.mark.parametrize("scheme", ["gs", "gcs", "abfs", "http"])
def test_a_store_that_would_show_files_twice_is_refused_by_name(scheme: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=rf"knows no atomic rename and no delayed upload for {scheme}://"):
        FileSink.for_row_format(f"{scheme}://bucket/x", Encoder.simple_string_encoder())


def test_without_boto3_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "boto3" else find(name))
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'beadline\[s3\]'"):
        FileSink.for_row_format("s3://bucket/x", Encoder.simple_string_encoder())


def test_a_bucket_that_is_not_there_is_named_before_the_first_step(store: Any) -> None:
    with pytest.raises(OSError, match=r"can't write to s3://nowhere/x.*(Not Found|404)"):
        write(store.uri("x").replace("bucket", "nowhere"))


def test_a_process_has_one_client_for_a_place(store: Any) -> None:
    assert s3.address_of(store.uri("x")).client is s3.address_of(store.uri("y/z")).client


@pytest.mark.parametrize(
    ("uri", "endpoint", "credentials"),
    [
        ("s3://b/k?endpoint_override=127.0.0.1:9000&scheme=http", "http://127.0.0.1:9000", None),
        ("s3://b/k?endpoint_override=minio.example", "https://minio.example", None),
        ("s3://key:s%2Fcret@b/k?region=eu-west-1", "https://s3.eu-west-1.amazonaws.com", ("key", "s/cret")),
    ],
)
def test_a_uri_says_what_pyarrow_takes_from_it(uri: str, endpoint: str, credentials: tuple[str, str] | None) -> None:
    client, bucket, key = s3.address_of(uri)
    assert (client.meta.endpoint_url, bucket, key) == (endpoint, "b", "k")
    if credentials is not None:
        found = client._get_credentials()
        assert (found.access_key, found.secret_key) == credentials
