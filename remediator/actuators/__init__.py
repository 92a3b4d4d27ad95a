"""The only code that changes the training cluster: ports, drivers, and the guard in front of them."""
