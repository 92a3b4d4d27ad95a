"""InfiniBand ports as /sys/class/infiniband shows them -> metrics, and events where one is gone."""
