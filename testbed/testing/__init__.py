"""Tools for tests of policies, and of whatever else sits around the engine. None of them needs pytest.

- ``testbed.testing.policies``: ``check_policy`` checks the rules that every policy keeps;
- ``testbed.testing.arena``: tiny cases whose fill times can be worked out by hand, and the best that is possible;
- ``testbed.testing.worlds``: jobs and sessions written by hand, to be simulated;
- ``testbed.testing.engine``: one engine that does what a script says;
- ``testbed.testing.clock``: a clock that a test moves.
"""
