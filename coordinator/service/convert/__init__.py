"""The wire's messages to and from the engine's values. Nothing else in the coordinator knows both.

What comes from outside is bounded here: what leaves this package towards the engine is well-formed and small.
"""
