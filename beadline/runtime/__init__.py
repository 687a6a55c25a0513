"""What lives in Spark's Python workers: operators, channels, and the cache between steps.

Read ``task`` first: it runs one level of one step in one partition.

===============  ========================================================================
``task``         one level of one step: what Spark calls, and what keeps poison out
``worker``       what a worker keeps between tasks, and what it needs to begin
``operators``    what is done with records, one family per module
``functions``    what surrounds user functions: contexts, their state, what they print
``exchange``     records on their way from operator to operator
``short_tasks``  work on immutable segments outside of the steps
``messages``     what the driver tells a task, and what a task answers
``failure``      a user's exception on its way to the driver
===============  ========================================================================
"""
