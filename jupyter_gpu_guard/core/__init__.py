"""The pure part: what is seen goes in, what should happen comes out. No I/O, no clock, no logging."""
