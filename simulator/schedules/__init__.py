"""What is sent, merged and computed by whom, after what: schedules, and what they are routed
over."""
