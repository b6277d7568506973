"""The captured program, and passes that are independent of the target."""
