"""Formats of records: the names of ``pyflink.datastream.formats``."""
