"""All about Slurm: what it says (model), what may be asked of it (port), and how (backends)."""
