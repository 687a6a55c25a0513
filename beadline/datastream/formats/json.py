"""Rows as JSON, where PyFlink has them."""

from beadline.common._formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from beadline.common.serialization import DeserializationSchema, SerializationSchema
from beadline.common.typeinfo import TypeInformation

__all__ = [
    "DeserializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "SerializationSchema",
    "TypeInformation",
]
