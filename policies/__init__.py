"""Rules as versioned data."""
