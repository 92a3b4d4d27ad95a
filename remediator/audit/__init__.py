"""The record: append-only, hash-chained, written in the transaction of what it records."""
