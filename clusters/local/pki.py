"""Certificates of one run: authorities, serving and client certificates, keys. Nothing is shared between runs."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from clusters.identity import write_private

LOOPBACK = ipaddress.ip_address("127.0.0.1")
VALID = dt.timedelta(days=7)
# A clock that is set back a little while the run goes on.
SKEW = dt.timedelta(minutes=5)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key as PEM files (mode 0600)."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority that lives in memory; only its certificate is written, to `folder`/`name`.crt."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(f"unreserve {name}", ())
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=False, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        built = (
            self._builder(self._subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.cert = folder / f"{name}.crt"
        write_private(self.cert, built.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, common_name: str, *, groups: Sequence[str] = (), serves: bool = False) -> Pair:
        """Write a client certificate for the user `common_name` in `groups`; with `serves` also for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if serves else [])
        builder = (
            self._builder(_name(common_name, groups), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier), critical=False
            )
        )
        if serves:
            names = x509.SubjectAlternativeName([x509.IPAddress(LOOPBACK), x509.DNSName("localhost")])
            builder = builder.add_extension(names, critical=False)
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        write_private(pair.cert, builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        write_private(pair.key, _pem(key))
        return pair

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + VALID)
        )


def signing_key(path: Path) -> Path:
    """Write a new private key, for signing service account tokens."""
    write_private(path, _pem(ec.generate_private_key(ec.SECP256R1())))
    return path


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1, the form that every Go component reads, service account keys included.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
