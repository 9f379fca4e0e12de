"""Figures of a report: each is drawn once, and saved as SVG, PDF and CSV."""
