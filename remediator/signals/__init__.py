"""World -> Signal rows: one door in, and nothing answered before its commit."""
