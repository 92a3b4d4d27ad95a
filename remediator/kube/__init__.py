"""All speech with the API server; the only importer of the `kubernetes` client."""
