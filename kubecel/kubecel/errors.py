"""The errors that callers catch; the text of each is upstream's, or names the limit."""


class CelError(Exception):
    """An expression, or an evaluation of it, that failed."""


class SelectorCompileError(CelError):
    """An expression that upstream refuses: the text is upstream's after `CEL compile error: `.

    `effort` is what it took to find that out, 0 if the error was kept.
    """

    effort = 0


class SelectorRuntimeError(CelError):
    """An evaluation that fails: the text is upstream's after `CEL runtime error: `."""


class UnansweredSelectorError(SelectorRuntimeError):
    """An evaluation without a result, because it exceeded a limit of this package; upstream may have one.

    `effort` is the time that it took, in microseconds.
    """

    def __init__(self, text: str, effort: int = 0) -> None:
        super().__init__(text)
        self.effort = effort
