"""Work on immutable runs outside of the steps: ``exporting`` for savepoints, ``migrating`` for changed types."""
