"""remediator: from an XID line to the job computing again."""

__version__ = "0.1.0"
