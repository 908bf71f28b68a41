"""Certificates for TLS and keys of nodes, for a federation on one machine, or for a start-up kit.

An organisation with an authority of its own uses its certificates. A node that makes its key itself
has to send nothing but the public half.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID

from fedbandits.federation.state_files import open_private, private_folder

_VALID = timedelta(days=3650)  # a node may run for years, and makes one when it starts
_HOST = "127.0.0.1"
_USES = (  # of a key; a strict reader wants to be told
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
_AUTHORITY = "fedbandits local authority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files of a server's certificate.

    Parameters
    ----------
    authority : path
        Certificate of the authority that signed it, which nodes trust.
    certificate, key : path
        The server's own.
    """

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKey:
    """Files of a node's key.

    Parameters
    ----------
    private, public : path
        The private half stays with the node; the public one is registered at the server.
    """

    private: Path
    public: Path


def make_certificates(folder: Path, host: str | None = None) -> Certificates:
    """Make an authority, and a certificate for this machine's own address, signed by it.

    The authority's key is forgotten at once: nobody can sign another one.

    Parameters
    ----------
    folder : path
        For the files.
    host : str, optional
        Another name or address of this machine, by which others call it.
    """
    private_folder(folder)
    authority, server = _key(), _key()
    made = Certificates(
        authority=folder / "authority.pem",
        certificate=folder / "server.pem",
        key=folder / "server.key",
    )
    write_private(made.authority, _certificate(_AUTHORITY, authority, authority))
    names = dict.fromkeys(("localhost", _HOST, *([] if host is None else [host])))
    write_private(made.certificate, _certificate("localhost", server, authority, names=names))
    _write_key(made.key, server, serialization.PrivateFormat.TraditionalOpenSSL)
    return made


def make_node_key(folder: Path, name: str) -> NodeKey:
    """Make a node's key; one that is there already is kept, because it is registered."""
    private_folder(folder)
    made = NodeKey(private=folder / name, public=folder / f"{name}.pub")
    if made.private.exists() and made.public.exists():
        return made
    key = _key()
    _write_key(made.private, key, serialization.PrivateFormat.OpenSSH)
    write_private(made.public, _as_openssh(key.public_key()))
    return made


def fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public key, as ``ssh-keygen -l`` prints it.

    Parameters
    ----------
    public : bytes
        The key, in PEM or as OpenSSH writes it.

    Raises
    ------
    ValueError
        If it is not a key.
    """
    pem = public.lstrip().startswith(b"-----")
    key = (serialization.load_pem_public_key if pem else serialization.load_ssh_public_key)(public)
    digest = hashlib.sha256(b64decode(_as_openssh(key).split()[1])).digest()
    return f"SHA256:{b64encode(digest).decode().rstrip('=')}"


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _as_openssh(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def _write_key(
    path: Path, key: ec.EllipticCurvePrivateKey, kind: serialization.PrivateFormat
) -> None:
    nobody = serialization.NoEncryption()
    write_private(path, key.private_bytes(serialization.Encoding.PEM, kind, nobody))


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    names: Iterable[str] = (),
) -> bytes:
    """Return a certificate of the authority, for itself or for a server with names."""
    now = datetime.now(UTC)
    others = [_general_name(name) for name in names]
    ca = not others
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca, 0 if ca else None), critical=True)
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key
    own, signers = identifier(key.public_key()), identifier(signer.public_key())
    of_signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signers)
    made = made.add_extension(own, critical=False).add_extension(of_signer, critical=False)
    uses = dict.fromkeys(_USES, False) | {"key_cert_sign": ca, "digital_signature": not ca}
    made = made.add_extension(x509.KeyUsage(**uses), critical=True)
    if others:
        made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else can read, from its first moment on."""
    path.unlink(missing_ok=True)
    with open_private(path, "xb") as file:
        file.write(content)
