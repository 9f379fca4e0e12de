"""Identities: the keys that a coordinator knows, and what each may do."""

from dataclasses import dataclass

from venn.wire.keys import Key, LocalKeys, Role


@dataclass(frozen=True, slots=True)
class Identity:
    """A key that is known here. A local one is that of any program of the coordinator's own user: as a device it may
    have any id.
    """

    key_id: bytes
    public: bytes  # DER
    role: Role
    name: str  # of a device its id, else for people
    local: bool = False

    @property
    def id(self) -> str:
        """The id of the key as text: 64 hexadecimal digits."""
        return self.key_id.hex()

    def is_device(self, device: str) -> bool:
        """Whether the holder of this key may be the device with this id."""
        return self.role == "device" and (self.local or self.name == device)


class Identities:
    """All identities, by the id of their key."""

    def __init__(self, keys: LocalKeys) -> None:
        local: tuple[tuple[Role, Key], ...] = (("device", keys.device), ("job", keys.job), ("admin", keys.admin))
        self._known = {key.id: Identity(key.id, key.public, role, "local", local=True) for role, key in local}

    def add(self, identity: Identity) -> None:
        """Know one more."""
        self._known[identity.key_id] = identity

    def get(self, key_id: bytes) -> Identity | None:
        return self._known.get(key_id)
