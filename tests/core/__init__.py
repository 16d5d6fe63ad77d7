"""The pure core, with the time as a value."""
