"""Connectors: the names of ``pyflink.datastream.connectors``."""

from beadline.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
