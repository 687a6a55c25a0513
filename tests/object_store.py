"""A server that speaks S3, on loopback. It knows no folders and no rename."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "bucket"


@dataclass(frozen=True)
class Store:
    """The server, with one bucket."""

    client: Any
    options: str

    def uri(self, path: str) -> str:
        return f"s3://{BUCKET}/{path}?{self.options}"

    def objects(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def read(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return data

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def uploads(self, prefix: str = "") -> list[str]:
        """The keys of uploads that are not completed."""
        found = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=prefix)
        return [upload["Key"] for upload in found.get("Uploads", ())]


@contextlib.contextmanager
def aws_server() -> Iterator[str]:
    """A server that speaks like Amazon's services, and its address."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it tells of each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


@contextlib.contextmanager
def object_store(patch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        patch.setenv(name, value)  # drivers get these too
    with aws_server() as address:
        client = boto3.client("s3", endpoint_url=f"http://{address}")
        client.create_bucket(Bucket=BUCKET)
        yield Store(client, urlencode({"endpoint_override": address, "scheme": "http"}))
