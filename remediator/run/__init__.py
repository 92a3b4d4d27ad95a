"""The only place that joins the stages: one short file per process."""
