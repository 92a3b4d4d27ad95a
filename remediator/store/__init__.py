"""The durable state: SQLAlchemy Core on SQLite (one replica) or PostgreSQL (several)."""
