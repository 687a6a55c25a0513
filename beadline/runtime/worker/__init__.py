"""What a Spark Python worker keeps between tasks.

``worker`` has the plan, the operators and the stores of each execution. ``surroundings`` is what it needs before it can
unpickle user code, ``garbage`` decides when it collects garbage.
"""
