"""Slurm through libslurm in a process of its own: only `worker.py`, which nothing imports, loads pyslurm."""
