"""The one exception that a user sees: what is wrong, where, and what to do, in one line.

Any other exception that escapes is a bug in Podium and keeps its traceback.
"""


class PodiumError(Exception):
    """A failure that is reported as one line on stderr with exit code 1; `str()` is that whole line."""


class NoKubeconfigError(PodiumError):
    """There is no kubeconfig, so the cluster is unknown; a command may have another source."""


class PodiumUsageError(PodiumError):
    """A mistake in the arguments or in the choice of the input: exit code 2 instead of 1."""
