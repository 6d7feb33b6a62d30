"""The connection that the configuration names, and the processor."""
