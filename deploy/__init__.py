"""Everything around the service: images, setup of a machine, the lab."""
