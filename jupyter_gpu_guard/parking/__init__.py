"""Parking: what a process has on devices is moved to the host's memory and back, by the driver. Experimental."""
