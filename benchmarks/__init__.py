"""Speed of gradcore beside the libraries people would use instead; see README.md in this folder."""
