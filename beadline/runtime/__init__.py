"""What lives in Spark's Python workers: operators, channels, and the cache between steps.

Read ``task`` first: it runs one level of one step in one partition. ``rows`` is what travels, ``writer`` and
``gate`` are the two ends of a channel, ``operators`` do the work, ``worker`` is what survives between steps.
"""
