"""Work on immutable segments outside of the steps: ``exporting`` for savepoints, ``migrating`` for changed types."""
