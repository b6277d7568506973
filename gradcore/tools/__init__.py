"""What developers run, and what describes an installation."""
