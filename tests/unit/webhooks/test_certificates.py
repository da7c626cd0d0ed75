"""Certificates as values: new ones satisfy a strict verifier, and unusable ones get a reason."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from cryptography.x509.verification import PolicyBuilder, Store
from tests.support.webhooks import pki

from podium.errors import PodiumError
from podium.webhooks import certificates
from podium.webhooks.certificates import Pair

CA = pki.authority()
OTHER = pki.authority()
LEAF = pki.leaf(CA)


def _one(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def _extension(pair: Pair, which: x509.ObjectIdentifier) -> tuple[bool, Any]:
    found = _one(pair).extensions.get_extension_for_oid(which)
    return found.critical, found.value


@pytest.mark.parametrize("name", pki.NAMES)
def test_a_strict_verifier_accepts_a_leaf_for_each_name(name: str) -> None:
    """Cryptography's verifier (CA/B forum profile) finds a path, by the right CA out of two in a bundle."""
    store = Store([_one(OTHER), _one(CA)])
    subject = certificates._alternative(name)
    assert isinstance(subject, x509.DNSName | x509.IPAddress)
    verifier = PolicyBuilder().store(store).time(pki.now()).build_server_verifier(subject)
    assert verifier.verify(_one(LEAF), [])[-1] == _one(CA)


def test_a_ca_may_sign_leaves_and_nothing_else() -> None:
    critical, constraints = _extension(CA, ExtensionOID.BASIC_CONSTRAINTS)
    assert critical
    assert constraints == x509.BasicConstraints(ca=True, path_length=0)
    critical, usage = _extension(CA, ExtensionOID.KEY_USAGE)
    assert critical
    assert usage.key_cert_sign
    assert not usage.digital_signature


def test_a_leaf_is_for_servers_only() -> None:
    critical, constraints = _extension(LEAF, ExtensionOID.BASIC_CONSTRAINTS)
    assert critical
    assert not constraints.ca
    assert list(_extension(LEAF, ExtensionOID.EXTENDED_KEY_USAGE)[1]) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not _extension(LEAF, ExtensionOID.KEY_USAGE)[1].key_cert_sign


def test_keys_are_p_256() -> None:
    for pair in (CA, LEAF):
        key = _one(pair).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert isinstance(key.curve, ec.SECP256R1)


def test_issuer_and_leaf_name_each_others_keys() -> None:
    """The leaf's authority key identifier is the CA's subject key identifier."""
    issuer = _extension(CA, ExtensionOID.SUBJECT_KEY_IDENTIFIER)[1].digest
    assert _extension(LEAF, ExtensionOID.AUTHORITY_KEY_IDENTIFIER)[1].key_identifier == issuer


def test_two_cas_are_told_apart_by_name_and_serial_number() -> None:
    assert _one(CA).subject != _one(OTHER).subject
    assert _one(CA).serial_number != _one(OTHER).serial_number
    assert _one(CA).serial_number > 0


def test_a_leaf_never_outlives_its_ca() -> None:
    long = pki.leaf(CA, end=timedelta(days=400))
    assert certificates.facts(long.certificate).end == certificates.facts(CA.certificate).end


def test_facts_are_those_of_the_first_certificate() -> None:
    facts = certificates.facts(LEAF.certificate + CA.certificate)
    assert facts == certificates.verify_pair(LEAF, pki.NAMES, pki.now())
    assert facts.names == pki.NAMES
    assert facts.start < pki.now() < facts.end
    assert len(facts.fingerprint) == 64


@dataclass
class Bad:
    """A pair and the error about it."""

    pair: Pair
    want: str
    names: tuple[str, ...] = pki.NAMES


_INNER = pki.leaf(CA)
BAD = {
    "key of another certificate": Bad(Pair(LEAF.certificate, OTHER.key), "the key does not belong"),
    "RSA key with an EC certificate": Bad(
        Pair(LEAF.certificate, pki.rsa_leaf(CA).key), "the key does not belong"
    ),
    "expired": Bad(pki.leaf(CA, end=-timedelta(minutes=1)), "certificate CN=podium-webhook expired at "),
    "not yet valid": Bad(pki.leaf(CA, start=10 * pki.HOUR), "is not valid before "),
    "a name is missing": Bad(
        pki.leaf(CA, ("other.svc",)),
        f"is not for {pki.NAME}, 127.0.0.1: its subject alternative names: other.svc",
    ),
    "an address is no DNS name": Bad(pki.leaf(CA, (pki.NAME,)), "is not for 127.0.0.1"),
    "for clients": Bad(
        pki.rsa_leaf(CA, use=ExtendedKeyUsageOID.CLIENT_AUTH), "extended key usage lacks serverAuth"
    ),
    "empty certificate": Bad(Pair(b"", LEAF.key), "no PEM certificate can be read"),
    "empty key": Bad(Pair(LEAF.certificate, b""), "no PEM private key can be read"),
    "garbage certificate": Bad(Pair(b"\x00\xff garbage", LEAF.key), "no PEM certificate can be read"),
    "garbage key": Bad(Pair(LEAF.certificate, b"\x00\xff garbage"), "no PEM private key can be read"),
    "key in place of the certificate": Bad(Pair(LEAF.key, LEAF.key), "no PEM certificate can be read"),
    "certificate cut": Bad(Pair(LEAF.certificate[:-60], LEAF.key), "no PEM certificate can be read"),
    "huge": Bad(Pair(LEAF.certificate * 1000, LEAF.key), "is longer than"),
    "expired in the chain": Bad(
        Pair(LEAF.certificate + pki.leaf(CA, end=-timedelta(minutes=1)).certificate, LEAF.key), "expired at"
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_certificate_that_clients_reject_is_refused_in_one_line(bad: Bad) -> None:
    with pytest.raises(PodiumError) as raised:
        certificates.verify_pair(bad.pair, bad.names, pki.now())
    assert bad.want in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_chain_that_its_issuer_did_not_sign_is_refused() -> None:
    """Two CAs have one name: the leaf's issuer matches by name, but is another."""
    key, twin = certificates.new_key(), pki.authority()
    forged = certificates.leaf(
        Pair(twin.certificate, OTHER.key), key, pki.NAMES, pki.now(), pki.now() + pki.HOUR
    )
    with pytest.raises(PodiumError, match="is not signed by the issuer beside it"):
        certificates.verify_pair(
            Pair(forged.certificate + twin.certificate, forged.key), pki.NAMES, pki.now()
        )


@pytest.mark.parametrize("use", [ExtendedKeyUsageOID.SERVER_AUTH, None])
def test_rsa_pairs_and_chains_of_others_are_served(use: x509.ObjectIdentifier | None) -> None:
    pair = pki.rsa_leaf(CA, use=use)
    certificates.verify_pair(Pair(pair.certificate + CA.certificate, pair.key), pki.NAMES, pki.now())


@pytest.mark.parametrize(
    "names, name, want",
    [
        (("a.example",), "A.Example", True),
        (("*.example",), "a.example", True),
        (("*.example",), "a.b.example", False),
        (("*.example",), "example", False),
        (("::1",), "0:0:0:0:0:0:0:1", True),
        (("10.0.0.1",), "10.0.0.2", False),
        (("*.0.0.1",), "10.0.0.1", False),
        (("localhost",), "localhost", True),
        ((), "localhost", False),
    ],
)
def test_names_are_covered_as_clients_see_it(names: tuple[str, ...], name: str, want: bool) -> None:
    assert certificates.covers(names, name) is want


def test_the_issuer_of_a_leaf_is_found_in_a_bundle() -> None:
    """Any certificate of the bundle may have signed the leaf or its chain; no other."""
    bundle = OTHER.certificate + CA.certificate
    assert certificates.issuer(LEAF.certificate, bundle) == certificates.facts(CA.certificate)
    assert certificates.issuer(OTHER.certificate + LEAF.certificate, CA.certificate) is not None
    assert certificates.issuer(LEAF.certificate, OTHER.certificate) is None
    with pytest.raises(PodiumError, match="no PEM certificate"):
        certificates.issuer(LEAF.certificate, b"")


def test_a_bundle_lasts_as_long_as_its_last_certificate() -> None:
    now = pki.now().replace(microsecond=0)
    ends = [now + timedelta(days=days) for days in (3, 9, 5)]
    made = [certificates.authority(certificates.new_key(), now, end).certificate for end in ends]
    assert certificates.lasts(b"".join(made)) == ends[1]


def test_a_name_that_is_not_ascii_is_refused_with_what_to_do() -> None:
    with pytest.raises(PodiumError, match="xn--"):
        pki.leaf(CA, ("köln.example",))


def test_no_text_of_a_pair_holds_its_key() -> None:
    assert LEAF.key.decode() not in repr(LEAF)
    assert "PRIVATE" not in f"{LEAF} {LEAF!r} {[LEAF]}"
