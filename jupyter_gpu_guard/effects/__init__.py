"""Each module does one thing to one owner and returns an Outcome; none of them decides."""
