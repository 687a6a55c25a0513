"""Parts that appear when a multipart upload is completed: on S3 and servers with the same protocol.

S3 has no rename. A part is made ready by uploading it to the key where it is to appear, without completing the upload.
Completing makes it appear and uses the upload up, in one act of the server. ``pyarrow.fs`` can't do that, so these
requests go through boto3; pieces are written and read through ``pyarrow.fs`` like everything else.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from beadline.connectors.files.names import STAGING, Names, PartName
from beadline.connectors.files.pieces import Piece
from beadline.connectors.files.place import Place
from beadline.errors import EnvironmentSetupError

# All but the last of at most 10,000 parts of an upload must have 5 MiB.
_CHUNK = 8 << 20
_MOST_CHUNKS = 10_000
_GONE = "NoSuchUpload"


def require_boto3() -> None:
    """It comes with an extra that need not be installed."""
    if importlib.util.find_spec("boto3") is None:
        raise EnvironmentSetupError(
            "FileSink on s3:// needs the package boto3: pip install 'beadline[s3]' where the job is started and on all "
            "workers"
        )


class Address(NamedTuple):
    """An object, or the beginning of the keys of several."""

    client: Any
    bucket: str
    key: str

    @property
    def where(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.key}


class UploadKey(NamedTuple):
    key: str
    upload: str


class Uploads(Place):
    """A committable is ``{"target": URI, "upload": id, "etags": […], "size": bytes}``."""

    def prepare(self) -> None:
        base = address_of(self.names.base)
        with _explained(f"can't write to {self.names.base}"):
            base.client.head_bucket(Bucket=base.bucket)

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        expected = sum(Piece(*piece).size for piece in part["pieces"])
        size = 0
        client, bucket, key = at = address_of(part["target"])
        with _explained(f"can't upload {part['target']}"):
            upload = client.create_multipart_upload(**at.where)["UploadId"]
            try:
                etags = []
                for number, chunk in enumerate(_chunks(self.content(part), expected), 1):
                    made = client.upload_part(**at.where, UploadId=upload, PartNumber=number, Body=chunk)
                    etags.append(made["ETag"])
                    size += len(chunk)
            except BaseException:
                with contextlib.suppress(Exception):
                    _abort(client, bucket, UploadKey(key, upload))
                raise
        return {"target": part["target"], "upload": upload, "etags": etags, "size": size}

    def key_of(self, committable: dict[str, Any]) -> Any:
        if "upload" not in committable:
            return None
        return UploadKey(address_of(committable["target"]).key, committable["upload"])

    def ready(self) -> Iterator[tuple[Any, Names]]:
        client, bucket, prefix = self._below()
        with _explained(f"can't list the uploads to {self.names.base}"):
            pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
            found = [UploadKey(each["Key"], each["UploadId"]) for page in pages for each in page.get("Uploads", ())]
        for each in found:
            owner = self.owner_of(each.key.rpartition("/")[2])
            if owner is not None:
                yield each, owner[0]

    def give_up(self, key: Any) -> None:
        client, bucket, _ = address_of(self.names.base)
        with _explained(f"can't abort the upload of {key.key}"):
            _abort(client, bucket, key)

    def parts(self) -> Iterator[tuple[str, Names, PartName]]:
        prefix = self._below().key
        for key in self._keys(prefix):
            owner = self.owner_of(key.rpartition("/")[2])
            if owner is not None and f"/{STAGING}" not in f"/{key[len(prefix) :]}":
                yield self._uri(key), *owner

    def staged(self) -> Iterator[tuple[str, Names]]:
        for folder, drivers in self._by_folder.items():
            prefix = address_of(folder).key + "/"
            for key in self._keys(prefix):
                driver = key[len(prefix) :].partition("/")[0]
                if driver in drivers:
                    yield self._uri(key), drivers[driver]

    def remove(self, path: str) -> None:
        at = address_of(path)
        with _explained(f"can't remove {path}"):
            at.client.delete_object(**at.where)

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            promised, ready = self.promised(), [key for key, _ in self.ready()]
            kept = promised.intersection(ready)
            for key in ready:
                if key not in kept:
                    self.give_up(key)
            lists = set(self.promises()) if kept else set()
            for path in [path for path, _ in self.staged() if path not in lists]:
                self.remove(path)

    def _below(self) -> Address:
        base = address_of(self.names.base)
        return base._replace(key=base.key + "/" if base.key else "")

    def _keys(self, prefix: str) -> list[str]:
        client, bucket, _ = address_of(self.names.base)
        with _explained(f"can't list {self.names.base}"):
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def _uri(self, key: str) -> str:
        base, mark, query = self.names.base.partition("?")
        return f"s3://{urlsplit(base).netloc}/{quote(key)}{mark}{query}"


def publish_upload(committable: dict[str, Any]) -> None:
    """Make a part appear.

    1. an upload that is gone has been completed: the part has appeared before, and a consumer may have taken it away
    2. another object is at that place: not ours to replace
    3. complete the upload. Of two attempts one wins, and the other finds no upload
    """
    at, upload, size = address_of(committable["target"]), committable["upload"], committable["size"]
    with _explained(f"can't publish {committable['target']}"):
        if not _is_open(at, upload):
            return
        there = _size_of(at)
        if there is not None and _is_open(at, upload):
            raise FileExistsError(
                f"{committable['target']} can't be published with {size} bytes: another object of {there} bytes, "
                "which this sink did not write, is in its place. Move it away, and the job will go on"
            )
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(committable["etags"], 1)]
        try:
            at.client.complete_multipart_upload(**at.where, UploadId=upload, MultipartUpload={"Parts": parts})
        except Exception:
            if _is_open(at, upload):
                raise


def is_open(target: str, upload: str) -> bool:
    """Whether an upload can still be completed."""
    with _explained(f"can't look for the upload of {target}"):
        return _is_open(address_of(target), upload)


def _is_open(at: Address, upload: str) -> bool:
    from botocore.exceptions import ClientError

    try:
        at.client.list_parts(**at.where, UploadId=upload, MaxParts=1)
    except ClientError as error:
        if error.response["Error"]["Code"] == _GONE:
            return False
        raise
    return True


def _size_of(at: Address) -> int | None:
    from botocore.exceptions import ClientError

    try:
        return int(at.client.head_object(**at.where)["ContentLength"])
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchKey"):
            return None
        raise


def _abort(client: Any, bucket: str, key: UploadKey) -> None:
    from botocore.exceptions import ClientError

    try:
        client.abort_multipart_upload(Bucket=bucket, Key=key.key, UploadId=key.upload)
    except ClientError as error:
        if error.response["Error"]["Code"] != _GONE:
            raise


def _chunks(content: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Content cut to what an upload takes: at least one chunk, which may be empty."""
    length = max(_CHUNK, -(-size // _MOST_CHUNKS))
    buffer = bytearray()
    for data in content:
        buffer += data
        while len(buffer) > length:
            yield bytes(buffer[:length])
            del buffer[:length]
    yield bytes(buffer)


# -- requests


def address_of(uri: str) -> Address:
    """The object that a URI of the form that ``pyarrow.fs`` knows names: ``s3://[key:secret@]bucket/key?option=…``."""
    parts = urlsplit(uri)
    user, _, bucket = parts.netloc.rpartition("@")
    return Address(_client(user, parts.query), bucket, unquote(parts.path).strip("/"))


@lru_cache(maxsize=16)
def _client(user: str, query: str) -> Any:
    """One client per process and place: making it reads credentials and models from disk."""
    require_boto3()
    import boto3
    from botocore.config import Config

    options = dict(parse_qsl(query))
    access, _, secret = user.partition(":")
    config: dict[str, Any] = {
        "retries": {"mode": "standard", "max_attempts": 5},
        # Servers that only have the protocol of S3 do not know the newer checksums.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    endpoint = options.get("endpoint_override")
    if endpoint:
        config["s3"] = {"addressing_style": "path"}
        if "://" not in endpoint:
            endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    session = boto3.session.Session(
        aws_access_key_id=unquote(access) or None,
        aws_secret_access_key=unquote(secret) or None,
        region_name=options.get("region"),
    )
    region = session.region_name or ("us-east-1" if endpoint else None)
    return session.client("s3", endpoint_url=endpoint or None, region_name=region, config=Config(**config))


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Errors of the store as those of a file system, which the engine knows."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(f"{what}: {error}") from error
