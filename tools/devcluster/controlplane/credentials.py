"""The secrets of a local cluster.

kube-apiserver signs its own serving certificate. The remaining secrets are a bearer token for each identity
and the key that signs service account tokens. Only the owner can read these files.
"""

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tools.devcluster.controlplane.components import SERVICE_ACCOUNT_KEY, TOKENS

from podium.documents import files

ADMIN = "admin"
# User and groups by the name of an identity.
Identities = Mapping[str, tuple[str, tuple[str, ...]]]

# User and groups by component; RBAC's bootstrap policy has the two system users, as on any cluster.
_IDENTITIES: Identities = {
    ADMIN: ("podium:admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("podium:kwok", ("system:masters",)),
}


def write(folder: Path, more: Identities = MappingProxyType({})) -> None:
    """Create the tokens and the service account key of a new cluster; `more` are further identities."""
    lines = [
        ",".join((secrets.token_urlsafe(32), user, name, *groups)) + "\n"
        for name, (user, groups) in {**_IDENTITIES, **more}.items()
    ]
    write_private(folder / TOKENS, "".join(lines))
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    write_private(folder / SERVICE_ACCOUNT_KEY, pem.decode("ascii"))


def tokens(folder: Path) -> dict[str, str]:
    """Return the bearer tokens of a cluster by identity: ADMIN or a component."""
    lines = (folder / TOKENS).read_text(encoding="ascii").splitlines()
    return {name: token for token, _, name, *_ in (line.split(",") for line in lines)}


def last_certificate(chain: str) -> str:
    """Return the last certificate of a PEM file: in a server's own chain, the CA that signed it."""
    return chain[chain.rindex("-----BEGIN CERTIFICATE-----") :]


def kubeconfig(*, cluster: str, user: str, url: str, token: str, authority: str) -> str:
    """Return a self-contained kubeconfig; its one context is called podium-CLUSTER."""
    encoded = base64.b64encode(authority.encode("ascii")).decode("ascii")
    context = f"podium-{cluster}"
    return _KUBECONFIG.format(context=context, user=user, url=url, token=token, authority=encoded)


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
    files.replace(path, lambda file: file.write(text.encode()), mode=files.PRIVATE)
