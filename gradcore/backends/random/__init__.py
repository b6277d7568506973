"""Random numbers that are the same on every device: a stream of words, and distributions computed from words."""
