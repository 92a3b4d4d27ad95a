"""Builds the parts that tests, lab and demo need on a fresh Debian or Ubuntu machine (no library needed)."""
