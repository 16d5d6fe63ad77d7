"""A real server, real kernels, a real browser, over the driver's stand-in."""
