"""Certificates of one run are private, of this run only, and say who is who."""

import ipaddress
import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from clusters.identity import write_private
from clusters.local.pki import Authority, Pair, signing_key


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def purposes(pair: Pair) -> set[object]:
    return set(read(pair.cert).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_a_client_certificate_names_the_user_and_the_groups(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").issue("runner", "unreserve:runner", groups=["system:masters"])

    subject = read(pair.cert).subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["unreserve:runner"]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]
    assert purposes(pair) == {ExtendedKeyUsageOID.CLIENT_AUTH}


def test_a_serving_certificate_is_for_loopback_only(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").issue("etcd", "etcd", serves=True)

    names = read(pair.cert).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert ExtendedKeyUsageOID.SERVER_AUTH in purposes(pair)


def test_two_authorities_do_not_vouch_for_each_other(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ca"), Authority(tmp_path, "etcd-ca")
    cert = read(ours.issue("kwok", "unreserve:kwok").cert)

    cert.verify_directly_issued_by(read(ours.cert))
    with pytest.raises((ValueError, InvalidSignature)):
        cert.verify_directly_issued_by(read(other.cert))


def test_every_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        authority = Authority(tmp_path, "ca")
        authority.issue("kwok", "unreserve:kwok")
        signing_key(tmp_path / "accounts.key")
        write_private(tmp_path / "kubeconfig", b"old")
        write_private(tmp_path / "kubeconfig", b"new")
    finally:
        os.umask(old)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("ca.crt", "kwok.crt", "kwok.key", "accounts.key", "kubeconfig"), 0o600)
    assert (tmp_path / "kubeconfig").read_bytes() == b"new"
