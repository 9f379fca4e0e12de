"""Identities: the keys that a coordinator knows, and what each may do; and the tokens by which keys join.

A state machine without clock or I/O: each change returns the fact to note, and facts make it anew after a restart.
"""

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from coordinator.service.facts import Facts, IdentityKnown, TokenEnded, TokenMade
from venn.wire.errors import PeerError
from venn.wire.keys import ROLES, Key, LocalKeys, Role

TOKEN_BYTES = 16
MOST_IDENTITIES = 100_000
MOST_TOKENS = 1_000  # that can be used, or were used and have not ended
MOST_USES = 10_000
SHORTEST_PREFIX = 8  # digits of a key's id that name it
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class IdentityError(PeerError):
    """A refusal: TOKEN, TOKEN_USED, TOKEN_ENDED, ROLE, NAME, NAME_TAKEN, UNKNOWN_IDENTITY, SEVERAL or TOO_MANY."""


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
    joined_ms: int = 0
    revoked_ms: int = 0  # 0: it is let in
    replaces: str = ""  # id of the key that ends when this one is first used

    @property
    def id(self) -> str:
        """The id of the key as text: 64 hexadecimal digits."""
        return self.key_id.hex()

    def is_device(self, device: str) -> bool:
        """Whether the holder of this key may be the device with this id."""
        return self.role == "device" and (self.local or self.name == device)


class Identities:
    """All identities, by the id of their key, and the join tokens, by their hash."""

    def __init__(self, keys: LocalKeys, facts: Facts) -> None:
        local: tuple[tuple[Role, Key], ...] = (("device", keys.device), ("job", keys.job), ("admin", keys.admin))
        self._known = {key.id: Identity(key.id, key.public, role, "local", local=True) for role, key in local}
        for known in facts.of(IdentityKnown):
            self.add(_identity(known))
        self._tokens = {token.hash: token for token in facts.of(TokenMade)}

    def get(self, key_id: bytes) -> Identity | None:
        """The identity with this key, also one that was revoked."""
        return self._known.get(key_id)

    def add(self, identity: Identity) -> IdentityKnown:
        """Know one more, or one in another state."""
        self._known[identity.key_id] = identity
        return _fact(identity)

    def joined(self) -> Iterator[Identity]:
        """The identities that have joined, by when they did."""
        return (identity for identity in self._known.values() if not identity.local)

    def find(self, name: str) -> Identity:
        """The one identity with this name that is let in, or whose key's id begins so. Raises IdentityError."""
        named = [each for each in self.joined() if each.name == name and not each.revoked_ms]
        if not named and len(name) >= SHORTEST_PREFIX:
            named = [each for each in self.joined() if each.id.startswith(name)]
        if not named:
            raise IdentityError("UNKNOWN_IDENTITY", f"no key here is {name!r}", fix="see: venn device keys")
        if len(named) > 1:
            ids = ", ".join(each.id[:16] for each in named)
            raise IdentityError("SEVERAL", f"several keys are {name!r}: {ids}", fix="give the first digits of one")
        return named[0]

    # -- joining

    def make_token(self, role: Role, uses: int, lasts_ms: int, now_ms: int) -> tuple[bytes, TokenMade]:
        """Make a join token. Raises IdentityError."""
        if len(self._tokens) >= MOST_TOKENS or not 1 <= uses <= MOST_USES:
            raise IdentityError("TOO_MANY", f"at most {MOST_TOKENS} tokens of at most {MOST_USES} uses at a time")
        token = secrets.token_bytes(TOKEN_BYTES)
        made = TokenMade(sha256(token).hexdigest(), role, uses, now_ms + lasts_ms, ())
        self._tokens[made.hash] = made
        return token, made

    def ended_tokens(self, now_ms: int) -> list[TokenEnded]:
        """Forget the tokens that have ended; returns the facts."""
        ended = [token.hash for token in self._tokens.values() if token.ends_ms <= now_ms]
        for each in ended:
            del self._tokens[each]
        return [TokenEnded(each) for each in ended]

    def enrol(
        self, token: bytes, public: bytes, role: Role | None, name: str, now_ms: int
    ) -> tuple[Identity, tuple[IdentityKnown, TokenMade] | None]:
        """Let a key in; ``role`` None: one of a person. Returns the facts, None if it was let in by this token before.

        Raises IdentityError.
        """
        made = self._tokens.get(sha256(token).hexdigest())
        if made is None:
            raise IdentityError("TOKEN", "this join token is not known", fix="ask an administrator for a new one")
        if now_ms >= made.ends_ms:
            raise IdentityError("TOKEN_ENDED", "this join token has ended", fix="ask an administrator for a new one")
        key_id = sha256(public).digest()
        known = self._known.get(key_id)
        if known is not None and known.id in made.used_by and not known.revoked_ms:
            return known, None
        granted = _role(made.role)
        if granted != role and not (role is None and granted != "device"):
            join = "venn agent join" if granted == "device" else "venn login"
            raise IdentityError("ROLE", f"this join token is for the role {granted}", fix=f"use it with: {join}")
        if len(made.used_by) >= made.uses:
            raise IdentityError(
                "TOKEN_USED", "this join token was used already", fix="ask an administrator for a new one"
            )
        if known is not None:
            raise IdentityError("KEY_KNOWN", "this key has joined before", fix="make a new one: remove the old key")
        if not NAME.fullmatch(name):
            raise IdentityError("NAME", f"{name!r} is no name; a name has 1 to 64 of the characters A-Z a-z 0-9 . _ -")
        if granted == "device" and self._has_device(name):
            raise IdentityError(
                "NAME_TAKEN", f"a device with the name {name} has joined", fix="give another --name, or revoke that one"
            )
        if len(self._known) >= MOST_IDENTITIES:
            raise IdentityError("TOO_MANY", f"{MOST_IDENTITIES} keys have joined, and no more may")
        identity = Identity(key_id, public, granted, name, joined_ms=now_ms)
        self._tokens[made.hash] = replace(made, used_by=(*made.used_by, identity.id))
        return identity, (self.add(identity), self._tokens[made.hash])

    def _has_device(self, name: str) -> bool:
        return any(each.role == "device" and each.name == name and not each.revoked_ms for each in self.joined())

    # -- leaving

    def revoke(self, identity: Identity, now_ms: int) -> IdentityKnown:
        """Let a key in no more."""
        return self.add(replace(identity, revoked_ms=identity.revoked_ms or now_ms))

    def rotate(self, old: Identity, public: bytes, now_ms: int) -> IdentityKnown | None:
        """Let another key in for the same holder; returns the fact, None if that was so. Raises IdentityError."""
        if old.local:
            raise IdentityError("LOCAL", "a local key does not rotate", fix="remove its file and start again")
        key_id = sha256(public).digest()
        known = self._known.get(key_id)
        if known is not None:
            if known.replaces == old.id:
                return None
            raise IdentityError("KEY_KNOWN", "this key has joined before", fix="make a new one")
        return self.add(Identity(key_id, public, old.role, old.name, joined_ms=now_ms, replaces=old.id))

    def used(self, identity: Identity) -> Identity | None:
        """Note that a key was used; returns the identity whose place it takes from now on, if there is one."""
        old = self._known.get(bytes.fromhex(identity.replaces)) if identity.replaces else None
        return old if old is not None and not old.revoked_ms else None


def _fact(identity: Identity) -> IdentityKnown:
    return IdentityKnown(
        identity.id,
        identity.public.hex(),
        identity.role,
        identity.name,
        identity.joined_ms,
        identity.revoked_ms,
        identity.replaces,
    )


def _identity(fact: IdentityKnown) -> Identity:
    public = bytes.fromhex(fact.public)
    return Identity(
        bytes.fromhex(fact.id),
        public,
        _role(fact.role),
        fact.name,
        joined_ms=fact.joined_ms,
        revoked_ms=fact.revoked_ms,
        replaces=fact.replaces,
    )


def _role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise ValueError(f"{text} is no role")
