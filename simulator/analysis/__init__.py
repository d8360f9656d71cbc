"""What a simulated schedule says: critical path, bubbles, memory, lower bounds, derivatives."""
