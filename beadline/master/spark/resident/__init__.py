"""Runs steps in Python workers that stay: one Spark job in barrier mode holds them for as long as the job runs.

``engine`` is the engine, ``gang`` the driver's side of one gang of workers, ``entrance`` where workers call, ``slots``
what Spark has room for.
"""
