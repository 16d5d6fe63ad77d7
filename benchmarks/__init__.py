"""What looking costs, and beside whom it was measured."""
