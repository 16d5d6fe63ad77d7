"""What happened, on disk."""
