"""Run folders that earlier versions have written, and the program that wrote them."""
