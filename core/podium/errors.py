"""The one exception that a user sees: what is wrong, where, and what to do, in one line.

Any other exception that escapes is a bug in Podium and keeps its traceback.
"""

from collections.abc import Mapping


class PodiumError(Exception):
    """A failure that is reported as one line on stderr with exit code 1; `str()` is that whole line."""


class NoKubeconfigError(PodiumError):
    """There is no kubeconfig, so the cluster is unknown; a command may have another source."""


class PodiumUsageError(PodiumError):
    """A mistake in the arguments or in the choice of the input: exit code 2 instead of 1."""


class QuestionError(PodiumUsageError):
    """A field of a question that has no answer: `field` is its name, and `str()` the problem.

    A program puts its own name of the field before the problem, such as an option or the label of an input.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field

    def worded(self, words: Mapping[str, str]) -> str:
        """Return the problem in a program's sentence for the field, in which `{}` is the problem."""
        return words[self.field].format(self)


class AmbiguousNameError(QuestionError):
    """A name without a namespace that objects of several namespaces have."""
