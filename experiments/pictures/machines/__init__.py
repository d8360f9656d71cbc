"""What a machine is made of, and its picture."""
