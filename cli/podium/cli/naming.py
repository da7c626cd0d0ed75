"""A pod or a group on the command line, as in kubectl: its kind, and [NAMESPACE/]NAME.

The namespace of a plain NAME is that of -n, else the context's. Files have no context, so there it is the
only namespace with an object of this name, which is known once they are read.
"""

from typing import NamedTuple

import click

from podium.answers.targets import parse_name
from podium.cli import kubeoptions, options
from podium.cluster.reader import Name
from podium.errors import QuestionError

# Separate from the flags that select a cluster, because files have namespaces too.
within_option = kubeoptions.namespace_option(
    "Namespace of a NAME without one.  [default: the context's; in files the only one that has it]", "within"
)


# The names by which kubectl knows the kinds.
_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("group", "groups", "podgroup", "podgroups", "pg"), "group"),
}


def _kind(text: str) -> str:
    """Return `pod` or `group` for one of kubectl's names, also with an API group, else the text."""
    return _KINDS.get(text.lower().partition(".")[0], text)


class KindChoice(options.AliasChoice):
    """The kind `pod` or `group`, by kubectl's names; KIND/NAME stays one value if `with_name`."""

    def __init__(self, *, with_name: bool = False) -> None:
        super().__init__(("pod", "group"), _kind)
        self._with_name = with_name

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind, and the name if there is one. An unknown kind is a usage error with a hint."""
        kind, slash, name = value.partition("/") if self._with_name else (value, "", "")
        if _kind(kind) not in self.choices:
            self.fail(
                f"{kind!r} is not one of 'pod', 'group'. A workload waits because of its pods or its group, "
                "so name one of them.",
                param,
                ctx,
            )
        return super().convert(kind, param, ctx) + slash + name


class Naming(NamedTuple):
    """The sources of a namespace for a name: -n, --tenant, and the cluster if no files are read."""

    within: str | None
    tenant: str | None
    kube: kubeoptions.KubeOptions
    live: bool

    def full(self, option: str, text: str) -> Name:
        """Return [NAMESPACE/]NAME as a name; an answer finds a namespace that is left empty.

        Raises click.UsageError, and PodiumError if the context's namespace is needed and there is none.
        """
        namespace = "" if "/" in text else self._meant()
        if text and "/" not in text and not namespace:
            return "", text
        try:
            name = parse_name(option, f"{namespace}/{text}" if namespace else text)
        except QuestionError as error:
            raise click.UsageError(f"{option}: {error}.") from None
        if self.within and name[0] != self.within:
            hint = f" Write {name[1]} without its kind." if _kind(name[0]) in _KINDS else ""
            raise click.UsageError(
                f"{option}: {text} is not in namespace {self.within}, which -n names.{hint}"
            )
        if self.tenant is not None and name[0] != self.tenant:
            raise click.UsageError(
                f"{'/'.join(name)} is not in namespace {self.tenant}, which --tenant names."
            )
        return name

    def _meant(self) -> str:
        """Return the namespace of a name without one; empty for files that neither -n nor --tenant limits."""
        if self.within or not self.live:
            return self.within or self.tenant or ""
        from podium.kube.kubeconfig import namespace  # noqa: PLC0415 - files do without

        return namespace(self.kube.kubeconfig, self.kube.context)
