"""One level of one step in one partition.

``entry`` is what Spark calls, ``task`` does the work, ``acks`` says what was done, ``poison`` keeps out records that
fail every time.
"""
