"""Frozen value types shared by all stages; nothing here does I/O."""
