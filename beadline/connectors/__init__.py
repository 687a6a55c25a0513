"""Sources and sinks as the engine sees them. ``source`` and ``sink`` are the contracts; the other modules fulfil
them."""
