"""What a checkpoint or savepoint holds, and how it is written down.

``snapshot`` is a sealed step as plain data, ``metadata`` is that as JSON (the ``_metadata`` file), ``canonical`` is the
state of a savepoint as Parquet.
"""
