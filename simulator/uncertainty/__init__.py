"""How sure a prediction of a profile is: its expected time, and an interval around that."""
