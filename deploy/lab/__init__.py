"""The lab: real Kubernetes, real nodes and real Slurm on one Linux machine, in namespaces of its own."""
