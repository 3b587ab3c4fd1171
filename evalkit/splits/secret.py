"""The secret of a split set, and the digests that nobody can confirm without it.

1. The secret is 32 random bytes, kept in `.evalkit/` as 64 hex characters. A file may begin with a line `DEMO: …`: such
   a secret is published on purpose, and the manifest says so.
2. An item's salt is HMAC-SHA256(secret, its id); its digest covers salt, id, cluster, stratum and content. A cluster's
   digest covers HMAC-SHA256(secret, its id).
3. The secret stands in no argument, message or manifest; the manifest holds its digest, to tell one from another.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from evalkit.canonical import digest_bytes
from evalkit.errors import BadInput

DEMO = "DEMO"
HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Secret:
    """The key that salts a split set's digests."""

    _key: bytes
    demo: bool
    """Published on purpose."""

    def __repr__(self) -> str:
        return f"Secret({self.label})"

    @property
    def label(self) -> str:
        """`demo` or `private`."""
        return "demo" if self.demo else "private"

    @property
    def digest(self) -> str:
        """Tells this secret from another; 32 random bytes cannot be found from it."""
        return digest_bytes("split-secret", self._key)

    def file_text(self) -> str:
        """What its file holds."""
        return ("DEMO: not secret\n" if self.demo else "") + self._key.hex() + "\n"

    def item_digest(self, item: Mapping[str, str | None]) -> str:
        """Salted digest of a row of the items table."""
        salt = hmac.digest(self._key, b"item\x00" + str(item["item_id"]).encode(), "sha256")
        content = {name: item[name] for name in ("cluster_id", "fields", "item_id", "stratum")}
        # RFC 8785 bytes: for an object of texts and nulls orjson writes the same, twenty times faster
        return digest_bytes("split-item", salt + orjson.dumps(content))

    def cluster_digest(self, cluster_id: str) -> str:
        """Salted digest of a cluster's id."""
        return digest_bytes("split-cluster", hmac.digest(self._key, b"cluster\x00" + cluster_id.encode(), "sha256"))


def new_secret() -> Secret:
    """32 bytes from the operating system."""
    return Secret(secrets.token_bytes(32), demo=False)


def read_secret(path: Path) -> Secret:
    """The secret in a file: 64 hex characters, after an optional line that begins with `DEMO`.

    Raises:
        BadInput: not there, or something else; the message holds nothing of the content.
    """
    try:
        lines = path.read_bytes().decode("ascii").split()
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name the file of the split's secret") from None
    except UnicodeDecodeError:
        lines, text = [], ""
    if not lines or not HEX.fullmatch(lines[-1]) or (len(lines) > 1 and not text.startswith(DEMO)):
        raise BadInput(
            f"{path}: not a split's secret; it is one line of 64 characters 0-9 a-f, under a DEMO line if any"
        )
    return Secret(bytes.fromhex(lines[-1]), demo=len(lines) > 1)
