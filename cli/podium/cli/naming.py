"""The name of a pod or a group on the command line: NAMESPACE/NAME, or NAME in a namespace as in kubectl."""

from typing import NamedTuple

import click

from podium.cli import inputs
from podium.cluster.reader import Name

# Separate from the flags that select a cluster, because files have namespaces too.
within_option = inputs.namespace_option(
    "Namespace of a NAME without one.  [default: the context's]", "within"
)


class Naming(NamedTuple):
    """The sources of a namespace for a name: -n, --tenant, and the cluster if no files are read."""

    within: str | None
    tenant: str | None
    kube: inputs.KubeOptions
    live: bool

    def full(self, option: str, text: str) -> Name:
        """Return [NAMESPACE/]NAME as a full name; `option` is its option.

        Raises click.UsageError, and PodiumError if the context's namespace is needed and there is none.
        """
        name = full_name(option, text if "/" in text else f"{self._meant(option, text)}/{text}")
        if self.within and name[0] != self.within:
            raise click.UsageError(f"{option}: {text} is not in namespace {self.within}, which -n names.")
        if self.tenant is not None and name[0] != self.tenant:
            raise click.UsageError(
                f"{'/'.join(name)} is not in namespace {self.tenant}, which --tenant names."
            )
        return name

    def _meant(self, option: str, text: str) -> str:
        if self.within:
            return self.within
        if not self.live:
            raise click.UsageError(
                f"{option}: namespace missing. Write NAMESPACE/{text}, or add -n NAMESPACE."
            )
        from podium.kube.kubeconfig import namespace  # noqa: PLC0415 - files do without

        return namespace(self.kube.kubeconfig, self.kube.context)


def full_name(option: str, text: str) -> Name:
    """Return NAMESPACE/NAME as a name. Raises click.UsageError."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError(f"{option}: {text!r} is not of the form NAMESPACE/NAME.")
    return namespace, name
