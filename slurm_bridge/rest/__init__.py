"""slurmrestd behind the port: transport, version, errors, decode, backend."""
