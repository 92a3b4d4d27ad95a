"""The `remediator` command, one module per topic."""
