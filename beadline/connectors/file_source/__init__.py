"""Records of files.

``source`` plans which part of which file a step reads; it is the same for all formats. ``listing`` finds the files and
notices if one has changed since. The others read one format each: ``text``, ``csv``, ``avro``, ``parquet``.
"""
