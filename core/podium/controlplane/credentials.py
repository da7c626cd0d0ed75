"""The secrets of a local cluster, created with the standard library alone.

kube-apiserver signs its own serving certificate. The remaining secrets are a bearer token for each identity
and the key that signs service account tokens. Only the owner can read these files.
"""

import base64
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from podium.controlplane.components import SERVICE_ACCOUNT_KEY, TOKENS

ADMIN = "admin"
# User and groups by component; RBAC's bootstrap policy has the two system users, as on any cluster.
_IDENTITIES = {
    ADMIN: ("podium:admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("podium:kwok", ("system:masters",)),
}

# SEC 1 ECPrivateKey: version 1, 32 octets of key, named curve prime256v1. The public key is optional there
# and readers derive it.
_EC_PREFIX = bytes.fromhex("30310201010420")
_EC_SUFFIX = bytes.fromhex("a00a06082a8648ce3d030107")


def write(folder: Path) -> None:
    """Create the tokens and the service account key of a new cluster."""
    lines = [
        ",".join((secrets.token_urlsafe(32), user, name, *groups)) + "\n"
        for name, (user, groups) in _IDENTITIES.items()
    ]
    write_private(folder / TOKENS, "".join(lines))
    write_private(folder / SERVICE_ACCOUNT_KEY, ec_private_key(secrets.token_bytes(32)))


def tokens(folder: Path) -> dict[str, str]:
    """Return the bearer tokens of a cluster by identity: ADMIN or a component."""
    lines = (folder / TOKENS).read_text(encoding="ascii").splitlines()
    return {name: token for token, _, name, *_ in (line.split(",") for line in lines)}


def ec_private_key(scalar: bytes) -> str:
    """Return a P-256 private key as PEM from 32 random bytes (all but 2**-32 of them are valid keys)."""
    body = base64.encodebytes(_EC_PREFIX + scalar + _EC_SUFFIX).decode("ascii")
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n"


def last_certificate(chain: str) -> str:
    """Return the last certificate of a PEM file: in a server's own chain, the CA that signed it."""
    return chain[chain.rindex("-----BEGIN CERTIFICATE-----") :]


def kubeconfig(*, cluster: str, user: str, url: str, token: str, authority: str) -> str:
    """Return a self-contained kubeconfig; its one context is called podium-CLUSTER."""
    values: Mapping[str, str] = {
        "context": f"podium-{cluster}",
        "user": user,
        "url": url,
        "token": token,
        "authority": base64.b64encode(authority.encode("ascii")).decode("ascii"),
    }
    return _KUBECONFIG.format_map(values)


_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: {context}
clusters:
- name: {context}
  cluster:
    server: {url}
    certificate-authority-data: {authority}
contexts:
- name: {context}
  context:
    cluster: {context}
    user: {user}
users:
- name: {user}
  user:
    token: {token}
"""


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, replacing the whole of an older one."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
    draft.replace(path)
