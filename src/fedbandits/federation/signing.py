"""Keys of clients and servers (Ed25519): made at their places, and never sent anywhere.

A client's key lies in the folder of its files, a server's beside its log. The private half is for
the account that made it alone, even in a folder that is shared with a group. The public half is one
line, as OpenSSH writes it, which ends with whose key it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.state_files import (
    alone_with,
    key_file,
    open_private,
    write_whole,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SERVER = "server"
"""Whose key a server's is, in the file of its public half."""

KEYS_FOLDER = "keys"
"""The folder of a project with the public keys of its clients, if they are known beforehand."""

Sign: TypeAlias = Callable[[bytes], bytes]
"""Returns the signature of bytes."""

KEY_BYTES = 32
"""How long a public key is."""

# As OpenSSH writes a key: the name of its kind and the key itself, each after its length.
_KIND = b"ssh-ed25519"
_BEFORE = len(_KIND).to_bytes(4) + _KIND + KEY_BYTES.to_bytes(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key that was made here.

    Parameters
    ----------
    public : bytes
        The half that others know.
    sign : callable
        Returns the signature of bytes.
    """

    public: bytes
    sign: Sign


def can_sign() -> bool:
    """Return whether the package that signs is installed."""
    return find_spec("cryptography") is not None


def require_signing(what: str) -> None:
    """Refuse what needs the package that signs, if it is not installed.

    Raises
    ------
    InputError
        With the way to install it.
    """
    if not can_sign():
        raise InputError(
            "cryptography", f'is not installed, and {what}; pip install "fedbandits[keys]"'
        )


def signing_key(path: Path, owner: str) -> SigningKey:
    """Return the key of a file; if there is none, make one, with its public half beside it.

    Parameters
    ----------
    path : path
        Of the private half; the public one ends in .pub.
    owner : str
        Whose key it is; see `owner_of` and `SERVER`.

    Raises
    ------
    InputError
        If the file is something else, or cannot be written.
    """
    require_signing("whatever is sent is signed")
    with alone_with(path):  # several processes of a node may start at once
        if not path.exists():
            _make_key(path)
        key = _read_key(path)
        public = key.public_key().public_bytes_raw()
        shown = path.with_suffix(".pub")
        if not shown.exists():
            write_whole(shown, f"{public_line(public, owner)}\n")
    return SigningKey(public=public, sign=key.sign)


def _make_key(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - likewise
        Ed25519PrivateKey,
    )

    content = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    new = path.with_name(f"{path.name}.new")
    with file_errors(path, "cannot be written"):
        new.unlink(missing_ok=True)
        with open_private(new, "xb") as file:
            if hasattr(os, "fchmod"):  # whoever shares the folder does not share the key
                os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def _read_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - likewise
        Ed25519PrivateKey,
    )

    with file_errors(path, "cannot be read"):
        content = path.read_bytes()
    try:
        key = serialization.load_ssh_private_key(content, None)
    except ValueError as error:
        raise InputError(str(path), f"is not a private key ({error}); {_RESTORE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(str(path), f"is a key of another kind than Ed25519; {_RESTORE}")
    return key


_RESTORE = "restore it from a copy, or remove it to have a new one made, which nobody knows yet"


def is_signed(key: bytes, said: bytes, signature: bytes) -> bool:
    """Return whether a signature of bytes is by a public key.

    The package that signs must be installed; see `require_signing`.

    Examples
    --------
    >>> import tempfile
    >>> key = signing_key(Path(tempfile.mkdtemp()) / "a.key", "client a")
    >>> is_signed(key.public, b"yes", key.sign(b"yes")), is_signed(key.public, b"no", b"")
    (True, False)
    """
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - likewise
        Ed25519PublicKey,
    )

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, said)
    except (InvalidSignature, ValueError):  # not by this key, or no key at all
        return False
    return True


def public_line(public: bytes, owner: str) -> str:
    """Return a public key as one line, as OpenSSH writes it."""
    return f"{_KIND.decode()} {base64.b64encode(_BEFORE + public).decode()} {owner}"


def fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public key, as ``ssh-keygen -l`` prints it.

    Examples
    --------
    >>> fingerprint(bytes(32))
    'SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk'
    """
    digest = hashlib.sha256(_BEFORE + public).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def read_public(path: Path) -> tuple[str, bytes]:
    """Return whose public key is in a file, and the key.

    Raises
    ------
    InputError
        If it is something else.
    """
    with file_errors(path, "cannot be read"):
        content = path.read_bytes()
    try:
        kind, said, owner = content.decode().strip().split(" ", 2)
        key = base64.b64decode(said, validate=True)
    except (ValueError, binascii.Error):
        kind, key, owner = "", b"", ""
    public = key.removeprefix(_BEFORE)
    if kind != _KIND.decode() or _BEFORE + public != key or len(public) != KEY_BYTES:
        raise InputError(
            str(path),
            "is not a public key: one line such as ssh-ed25519 AAAA… client clinic-1",
        )
    return owner, public


def read_keys(folder: Path) -> dict[str, set[bytes]]:
    """Return the public keys in the files ``*.pub`` of a folder, by whose they are.

    Whoever has changed keys has several.

    Raises
    ------
    InputError
        If there is no such folder, or a file is something else.
    """
    if not folder.is_dir():
        raise InputError(str(folder), "is not a folder; name one with public keys (*.pub)")
    found: dict[str, set[bytes]] = {}
    for path in sorted(folder.glob("*.pub")):
        owner, key = read_public(path)
        found.setdefault(owner, set()).add(key)
    return found


def keys_of_clients(folder: Path) -> dict[str, bytes]:
    """Return the public keys of clients in a folder, by their names; other keys are left out.

    Raises
    ------
    InputError
        If there is no such folder, a file is something else, or a client has two keys.
    """
    found = {}
    for owner, keys in read_keys(folder).items():
        if owner.startswith(_CLIENT):
            if len(keys) > 1:
                raise InputError(str(folder), f"has {len(keys)} keys of {owner}; keep one")
            found[owner.removeprefix(_CLIENT)] = next(iter(keys))
    return found


_CLIENT = "client "


def client_key(folder: Path, client: str) -> SigningKey:
    """Return the key of a client, in the folder of its files; it is made when it is first used."""
    return signing_key(key_file(folder, client), owner_of(client))


def owner_of(client: str) -> str:
    """Return whose key a client's is, in the file of its public half."""
    return f"{_CLIENT}{client}"


def server_key_path(log: Path) -> Path:
    """Return where the server that writes a log keeps its key; the public half ends in .pub."""
    return log.resolve().with_name("fedbandits-server.key")


def server_key(log: Path, *, new: bool = False) -> SigningKey:
    """Return the key of the server that writes a log; all logs of a folder are signed with it.

    Parameters
    ----------
    log : path
        Of the log.
    new : bool
        Whether to make one if there is none; only for a run that has not begun.

    Raises
    ------
    InputError
        If it is not there, or something else.
    """
    path = server_key_path(log)
    if not new and not path.exists():
        raise InputError(
            str(path),
            f"is not there, and {log.name} is signed with it; restore it from a copy: nobody else"
            " can continue this run",
        )
    return signing_key(path, SERVER)
