"""A small stand-in of Slinky's slurm-operator v1.2.1, StatefulSet mode, for the lab.

Left out on purpose: DaemonSet mode, rolling and scheduled updates, topology, SSH, login sets, accounting,
pruning, pod-deadline, and the pods of slurmctld and slurmrestd (the lab runs those beside Kubernetes).
"""
