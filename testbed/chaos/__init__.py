"""Deterministic simulation of the real programs in a world where everything fails (docs/chaos.md)."""
