"""What the environment works with.

``options`` and ``checkpoint_options`` read the configuration. ``typed_collections`` and ``dataframes`` are inputs and
outputs without a connector. ``lending`` lets a module serve the names that PyFlink has there too.
"""
