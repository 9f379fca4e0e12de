"""Stubs generated from the .proto files in this folder (see ``protos/generate.py``)."""
