"""The one exception a person sees: what is wrong, where, and what to do, in one line.

Everything else that escapes is a bug in Podium and keeps its traceback.
"""


class PodiumError(Exception):
    """A failure worth one line on stderr and exit code 1; `str()` is that whole line."""


class NoKubeconfigError(PodiumError):
    """There is no kubeconfig, so nobody knows which cluster is meant; a command may have another way."""
