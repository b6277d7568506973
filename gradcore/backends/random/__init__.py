"""Random numbers that are the same on every device: words, functions from words to numbers, and choices."""
