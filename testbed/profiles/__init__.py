"""Device profiles: how fast a kind of device and its link are, in absolute units, each value with its source."""

from testbed.profiles.loader import load_profile, packaged_profiles
from testbed.profiles.model import Profile, Sourced

__all__ = ["Profile", "Sourced", "load_profile", "packaged_profiles"]
