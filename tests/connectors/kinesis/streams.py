"""A server that speaks Kinesis and Firehose, on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3

from tests.object_store import aws_server

LOGIN = {
    "aws.region": "us-east-1",
    "aws.credentials.provider": "BASIC",
    "aws.credentials.provider.basic.accesskeyid": "any",
    "aws.credentials.provider.basic.secretkey": "very-secret",
}


@dataclass(frozen=True)
class Service:
    """The server, and how programs reach it."""

    url: str

    @property
    def properties(self) -> dict[str, str]:
        return {**LOGIN, "aws.endpoint": self.url}

    def client(self, service: str = "kinesis") -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
        )

    def make_stream(self, name: str, shards: int = 2) -> str:
        self.client().create_stream(StreamName=name, ShardCount=shards)
        arn: str = self.client().describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
        return arn

    def put(self, name: str, texts: list[str]) -> None:
        client = self.client()
        for start in range(0, len(texts), 500):
            batch = [{"Data": text.encode(), "PartitionKey": text} for text in texts[start : start + 500]]
            assert client.put_records(StreamName=name, Records=batch)["FailedRecordCount"] == 0

    def read(self, name: str) -> list[tuple[str, str, str]]:
        """All records: shard, partition key, text."""
        client = self.client()
        found = []
        for shard in client.list_shards(StreamName=name)["Shards"]:
            where = {"StreamName": name, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = client.get_shard_iterator(**where)["ShardIterator"]
            while iterator is not None:
                answer = client.get_records(ShardIterator=iterator, Limit=10_000)
                found += [(shard["ShardId"], r["PartitionKey"], r["Data"].decode()) for r in answer["Records"]]
                iterator = answer.get("NextShardIterator") if answer["Records"] else None
        return found


@contextlib.contextmanager
def running_service() -> Iterator[Service]:
    with aws_server() as address:
        yield Service(f"http://{address}")
