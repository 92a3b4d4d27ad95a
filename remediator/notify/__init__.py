"""Telling people: rows in an outbox, written with the decision, delivered until a channel took them."""
