"""The program as a graph, and the graph cut into levels.

``specs`` is what the user's calls build, nodes and what each of them does; ``plan`` resolves parallelism and ids and
cuts the graph at every exchange.
"""
