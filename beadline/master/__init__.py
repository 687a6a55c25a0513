"""The job master: plans steps, submits them to Spark, gathers acknowledgements, seals.

``job`` is the loop. ``spark`` is the only module that talks to Spark; ``seal``, ``pacing`` and ``handles`` are plain
logic.
"""
