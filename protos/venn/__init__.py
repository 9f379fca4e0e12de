"""The wire: generated stubs in ``venn.v1``, what every side shares in ``venn.wire``."""
