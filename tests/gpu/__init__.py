"""What is assumed about NVIDIA's driver, checked on a real GPU."""
