"""Records of Avro whose schemas are in a registry, in Confluent's wire format: a zero, the schema's number in four
bytes, and the record.

Each worker asks the registry once for each schema.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from beadline.common._formats.avro_rows import record_reader, record_writer, unreadable
from beadline.common._formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo
from beadline.common._formats.avro_values import row_reader, row_writer
from beadline.common.serialization import DeserializationSchema, SerializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError

__all__ = ["ConfluentRegistryAvroDeserializationSchema", "ConfluentRegistryAvroSerializationSchema"]

_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_SECONDS = 30
_PAUSES = (0.2, 1.0)
_UNKNOWN = 404
_HEADER = 5
_USER_INFO = "basic.auth.user.info"
_PROPERTIES = (_USER_INFO, "basic.auth.credentials.source", "bearer.auth.token")

Same: Callable[[Any], Any] = lambda value: value  # noqa: E731


class _NotThere(Exception):
    """The registry does not know what it was asked for."""


class Registry:
    """The requests that records need. It remembers the answers.

    :param urls: of servers of one registry; the next one is asked if one does not answer
    :param authorization: a header, or None
    """

    def __init__(self, urls: tuple[str, ...], authorization: str | None) -> None:
        self._urls = urls
        self._authorization = authorization
        self._schemas: dict[int, AvroSchema] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def schema(self, number: int) -> AvroSchema:
        found = self._schemas.get(number)
        if found is None:
            answer = self._ask(f"/schemas/ids/{number}", None)
            found = self._schemas[number] = self._schema_of(answer)
        return found

    def _schema_of(self, answer: dict[str, Any]) -> AvroSchema:
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise SerializationError(f"the registry has a schema of type {kind} there, and AVRO is needed")
        if answer.get("references"):
            return AvroSchema(json.dumps(self._with_references(answer, {})))
        return AvroSchema(answer["schema"])

    def _with_references(self, answer: dict[str, Any], defined: dict[str, Any]) -> Any:
        """A schema with what it refers to put in its place, at the first time."""
        for reference in answer.get("references") or ():
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            defined[reference["name"]] = self._with_references(self._ask(path, None), defined)
        return _inlined(json.loads(answer["schema"]), defined)

    def number(self, subject: str, schema: AvroSchema) -> int:
        """The number of a schema, which is registered if it is not yet there."""
        key = (subject, str(schema))
        if key not in self._numbers:
            body = json.dumps({"schema": str(schema)}).encode()
            self._numbers[key] = int(self._ask(f"/subjects/{quote(subject, safe='')}/versions", body)["id"])
        return self._numbers[key]

    def _ask(self, path: str, body: bytes | None) -> dict[str, Any]:
        problem = ""
        for pause in (*_PAUSES, None):
            for url in self._urls:
                try:
                    return self._request(url + path, body)
                except urllib.error.HTTPError as error:
                    said = error.read()[:500].decode("utf-8", "replace")
                    problem = f"{url}{path}: HTTP {error.code} {said}"
                    if error.code == _UNKNOWN:
                        raise _NotThere(problem) from None
                    if error.code < 500 and error.code != 429:
                        raise OSError(f"the schema registry refuses: {problem}") from None
                except (OSError, ValueError) as error:
                    problem = f"{url}{path}: {error}"
            if pause is not None:
                time.sleep(pause)
        raise OSError(f"the schema registry does not answer: {problem}")

    def _request(self, url: str, body: bytes | None) -> dict[str, Any]:
        request = urllib.request.Request(url, body, {"Content-Type": _TYPE, "Accept": f"{_TYPE}, application/json"})
        if self._authorization is not None:
            request.add_header("Authorization", self._authorization)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found


@lru_cache(maxsize=32)
def registry_at(urls: tuple[str, ...], authorization: str | None) -> Registry:
    """One for each process, so that its answers are kept."""
    return Registry(urls, authorization)


def _inlined(node: Any, defined: dict[str, Any]) -> Any:
    if isinstance(node, str):
        return defined.pop(node, node)
    if isinstance(node, list):
        return [_inlined(inner, defined) for inner in node]
    if isinstance(node, dict):
        if "fields" in node:
            fields = [{**field, "type": _inlined(field["type"], defined)} for field in node["fields"]]
            return {**node, "fields": fields}
        return {
            key: _inlined(inner, defined) if key in ("type", "items", "values") else inner
            for key, inner in node.items()
        }
    return node


class _Place:
    """Where the registry is. Passwords are in it, so it shows nothing."""

    def __init__(self, url: str, properties: dict[str, str] | None) -> None:
        unknown = sorted(set(properties or ()) - set(_PROPERTIES))
        if unknown:
            raise ConfigurationError(
                f"The schema registry's properties {unknown} are not supported; those that are: {list(_PROPERTIES)}"
            )
        given = dict(properties or {})
        urls, user_info = [], given.get(_USER_INFO)
        for one in url.split(","):
            parts = urlsplit(one.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigurationError("The schema registry's URL must begin with http:// or https:// and a host")
            if parts.username is not None:
                user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            host = parts.netloc.rpartition("@")[2]
            urls.append(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")))
        self._urls = tuple(urls)
        self._authorization: str | None = None
        if "bearer.auth.token" in given:
            self._authorization = f"Bearer {given['bearer.auth.token']}"
        elif user_info is not None:
            self._authorization = f"Basic {base64.b64encode(user_info.encode()).decode()}"

    def registry(self) -> Registry:
        return registry_at(self._urls, self._authorization)

    def __repr__(self) -> str:
        return ", ".join(self._urls)


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema):
    """Reads messages in Confluent's wire format. Each is read with the schema that it was written with, and given as a
    record of the one schema that is named here, by Avro's rules of evolution."""

    def __init__(self, schema: AvroSchema, place: _Place, rows: bool) -> None:
        self._schema = _checked(schema)
        self._place = place
        self._rows = rows
        self._type = schema.type_info() if rows else GenericRecordAvroTypeInfo(schema)
        self._deserialize: Callable[[bytes], Any] | None = None

    @staticmethod
    def for_generic(
        schema: AvroSchema, url: str, properties: dict[str, str] | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Records as dicts.

        :param url: of the registry, or several with commas between them
        :param properties: ``basic.auth.user.info`` (``name:password``) or ``bearer.auth.token``
        """
        return ConfluentRegistryAvroDeserializationSchema(schema, _Place(url, properties), rows=False)

    @staticmethod
    def for_row(
        schema: AvroSchema, url: str, properties: dict[str, str] | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Records as rows; otherwise as :meth:`for_generic`."""
        return ConfluentRegistryAvroDeserializationSchema(schema, _Place(url, properties), rows=True)

    def deserialize(self, message: bytes | None) -> Any:
        """The record; None for no message."""
        if message is None:
            return None
        if self._deserialize is None:
            self._deserialize = self.deserializer()
        return self._deserialize(message)

    def deserializer(self) -> Callable[[bytes], Any]:
        registry, wanted = self._place.registry(), self._schema
        convert = row_reader(wanted) if self._rows else Same
        readers: dict[bytes, Callable[[bytes], Any]] = {}

        def read_message(message: bytes) -> Any:
            header = message[:_HEADER]
            read = readers.get(header)
            if read is None:
                if len(message) < _HEADER or header[0] != 0:
                    raise unreadable(message, wanted, "it does not begin with a zero and the number of a schema")
                number = int.from_bytes(header[1:], "big")
                try:
                    read = readers[header] = record_reader(registry.schema(number), wanted, convert)
                except _NotThere as error:
                    raise unreadable(message, wanted, f"the registry has no schema {number} ({error})") from None
            return read(message[_HEADER:])

        return read_message

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_deserialize": None}

    def __repr__(self) -> str:
        return f"ConfluentRegistryAvroDeserializationSchema({self._schema!r}, {self._place!r})"


class ConfluentRegistryAvroSerializationSchema(SerializationSchema):
    """Writes messages in Confluent's wire format. The schema is registered under a subject when the first record is
    written."""

    def __init__(self, subject: str, schema: AvroSchema, place: _Place, rows: bool) -> None:
        self._subject = subject
        self._schema = _checked(schema)
        self._place = place
        self._rows = rows
        self._serialize: Callable[[Any], bytes] | None = None

    @staticmethod
    def for_generic(
        subject: str, schema: AvroSchema, url: str, properties: dict[str, str] | None = None
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Records that are dicts. For the values of a topic, the subject is usually called ``<topic>-value``.

        :param url: of the registry, or several with commas between them
        :param properties: ``basic.auth.user.info`` (``name:password``) or ``bearer.auth.token``
        """
        return ConfluentRegistryAvroSerializationSchema(subject, schema, _Place(url, properties), rows=False)

    @staticmethod
    def for_row(
        subject: str, schema: AvroSchema, url: str, properties: dict[str, str] | None = None
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Records that are rows; otherwise as :meth:`for_generic`."""
        return ConfluentRegistryAvroSerializationSchema(subject, schema, _Place(url, properties), rows=True)

    def serialize(self, value: Any) -> bytes:
        if self._serialize is None:
            self._serialize = self.serializer()
        return self._serialize(value)

    def serializer(self) -> Callable[[Any], bytes]:
        made: list[Callable[[Any], bytes]] = []

        def write_message(value: Any) -> bytes:
            if not made:
                number = self._place.registry().number(self._subject, self._schema)
                convert = row_writer(self._schema) if self._rows else Same
                made.append(record_writer(self._schema, convert, b"\0" + number.to_bytes(4, "big")))
            return made[0](value)

        return write_message

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_serialize": None}

    def __repr__(self) -> str:
        return f"ConfluentRegistryAvroSerializationSchema({self._subject!r}, {self._schema!r}, {self._place!r})"


def _checked(schema: object) -> AvroSchema:
    if not isinstance(schema, AvroSchema):
        raise TypeMismatchError(f"An AvroSchema is needed, got {schema!r}; use AvroSchema.parse_string(…)")
    return schema
