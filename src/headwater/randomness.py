"""The keys of a run: of the protecting noise (secret), of hashes of people (secret), and of releases (public)."""

from __future__ import annotations

import hashlib
import secrets

from headwater.noise import Noise, warn_of_seed


def new_keys(seed: int | None) -> tuple[Noise, bytes]:
    """The noise under a new secret key, and a public key that is independent of it; both from a seed if given."""
    if seed is None:
        return Noise(), secrets.token_bytes(32)
    noise = Noise(seed)
    warn_of_seed(4)
    return noise, hashlib.sha256(b"headwater public seed %d" % seed).digest()


def new_person_key(seed: int | None) -> bytes:
    """A key for hashes of people, which owes nothing to the others; it follows from a seed if given."""
    return secrets.token_bytes(32) if seed is None else hashlib.sha256(b"headwater people seed %d" % seed).digest()


def restored_keys(secret: str, public: str) -> tuple[Noise, bytes]:
    """The noise and the public key of a run that goes on; keys are hexadecimal."""
    return Noise(key=bytes.fromhex(secret)), bytes.fromhex(public)


def release_seed(public: bytes, t: int, start: int) -> int:
    """The seed of a release's own randomness: public, the same whenever the same release is asked for."""
    text = b"".join(number.to_bytes(16, "little") for number in (t, start))
    return int.from_bytes(hashlib.sha256(public + text).digest()[:16], "little")


def run_id(public: bytes) -> str:
    """The public name of a run."""
    return hashlib.sha256(b"run" + public).hexdigest()[:16]
