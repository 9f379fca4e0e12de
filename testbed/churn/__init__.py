"""The timeline of a scenario: what is done to its devices and programs, and when."""
