"""The testbed: starts a whole world of jobs and devices from one scenario file, records it and shows it."""
