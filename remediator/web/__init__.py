"""The HTTP door: authenticate, parse, hand over, answer after the commit; metrics and health."""
