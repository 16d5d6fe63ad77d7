"""What only shows after thousands of ticks, or while processes come and go all the time."""
