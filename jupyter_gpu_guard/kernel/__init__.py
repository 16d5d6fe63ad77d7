"""What runs inside a kernel."""
