"""Security assistant: drawings to schedules, with checkpoints."""
