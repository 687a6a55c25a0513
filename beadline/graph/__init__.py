"""The program as a graph, and the graph cut into levels.

``nodes`` is what the user's calls build; ``specs`` says what each node does; ``plan`` resolves parallelism and ids
and cuts the graph at every exchange.
"""
