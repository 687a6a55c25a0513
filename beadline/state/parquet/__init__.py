"""State as Parquet, which is what canonical savepoints are made of.

``columns`` is a table of keyed state, with ``types`` (which column for which type), ``values`` and ``nested`` (values
to Arrow and back). ``segment`` is such a table as a file, ``operator_columns`` a file of operator state.
"""
