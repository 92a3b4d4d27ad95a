"""Decision -> durable steps: plans as data, one small module per step, one engine."""
