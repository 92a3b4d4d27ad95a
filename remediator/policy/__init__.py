"""Incident + view -> Decision: pure functions, each answer with the sentence that explains it."""
