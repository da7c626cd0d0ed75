"""Regular expressions: a matcher whose time is linear in the text, and `matches`, `find` and `findAll`.

The matcher runs all threads of a pattern side by side in order of priority, as the machine of RE2 does. The
cost that Kubernetes charges does not see counted repetitions. So the meter counts what is read and searched,
and a program takes some bytes for an instruction.

Source: Russ Cox, Regular Expression Matching: the Virtual Machine Approach; cel-go
common/types/string.go; k8s.io/apiserver/pkg/cel/library/regex.go.
"""

from array import array

from kubecel.effort import meter
from kubecel.errors import SelectorCompileError, SelectorRuntimeError
from kubecel.operators import no_trait
from kubecel.patternsyntax import PatternError, PatternNode, in_class, parse_pattern
from kubecel.values import Function

# The answers of the classes of a pattern that are kept, if it is short.
_KNOWN = 256
# The effort of each of several matches.
_FOUND = 4
_CLASS, _SPLIT, _JUMP, _MATCH, _TEST = range(5)


class Pattern:
    """A compiled pattern: arrays with the kind of each instruction and the one or two that follow it."""

    def __init__(self, text: str) -> None:
        """Compile a pattern. Raises PatternError."""
        self._kinds = bytearray()
        self._first, self._second = array("i"), array("i")
        # Of instructions that read a character or test a place.
        self._nodes: list[PatternNode | None] = []
        self._emit_step(parse_pattern(text))
        self._emit(_MATCH)
        self._known: dict[tuple[int, str], bool] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return the leftmost match at or after a place; of several, the one that RE2 prefers.

        Raises CostLimitError.
        """
        best: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        for place in range(start, len(text) + 1):
            following: list[tuple[int, int]] = []
            if best is None:
                threads.append((0, place))
            for counter, begun in self._closure(threads, text, place):
                if self._kinds[counter] == _MATCH:
                    best = (begun, place)
                    break
                if place < len(text) and self._reads(counter, text[place]):
                    following.append((counter + 1, begun))
            threads = following
            if not threads and best is not None:
                break
        return best

    def find_all(self, text: str, limit: int) -> list[str]:
        """Return the texts of the matches that do not overlap, at most `limit` unless it is negative."""
        texts: list[str] = []
        place, last_end = 0, -1
        while place <= len(text) and (limit < 0 or len(texts) < limit):
            match = self.search(text, place)
            if match is None:
                break
            begin, end = match
            accept = not (begin == end and begin == last_end)
            place = end if end > begin else end + 1
            last_end = end
            if accept:
                meter.make_objects(1)
                meter.spend(_FOUND)
                meter.make_text(end - begin)
                texts.append(text[begin:end])
        return texts

    def _reads(self, counter: int, character: str) -> bool:
        key = (counter, character)
        reads = self._known.get(key)
        if reads is None:
            node = self._nodes[counter]
            assert node is not None, "it reads a character"
            reads = in_class(node, character)
            if len(self._known) < max(_KNOWN, 2 * len(self)):
                self._known[key] = reads
        return reads

    def _closure(self, threads: list[tuple[int, int]], text: str, place: int) -> list[tuple[int, int]]:
        """Return the threads that read a character or match here, in order of priority."""
        ready: list[tuple[int, int]] = []
        seen: set[int] = set()
        kinds, nodes = self._kinds, self._nodes
        for first, begun in threads:
            waiting = [first]
            while waiting:
                counter = waiting.pop()
                if counter in seen:
                    continue
                seen.add(counter)
                kind = kinds[counter]
                if kind in {_CLASS, _MATCH}:
                    ready.append((counter, begun))
                elif kind == _JUMP:
                    waiting.append(self._first[counter])
                elif kind == _SPLIT:
                    waiting += (self._second[counter], self._first[counter])
                else:
                    node = nodes[counter]
                    assert node is not None, "it tests a place"
                    if _holds(node.kind, text, place):
                        waiting.append(counter + 1)
        meter.spend(len(seen) + 1)
        return ready

    def _emit(self, kind: int, node: PatternNode | None = None, first: int = -1) -> int:
        self._kinds.append(kind)
        self._first.append(first)
        self._second.append(-1)
        self._nodes.append(node)
        return len(self._kinds) - 1

    def _emit_step(self, step: PatternNode) -> None:
        meter.spend(2)
        match step.kind:
            case "class":
                self._emit(_CLASS, step)
            case "empty":
                pass
            case "group" | "sequence":
                for child in step.parts:
                    self._emit_step(child)
            case "either":
                self._emit_either(step)
            case "repeat":
                self._emit_repeat(step)
            case _:
                self._emit(_TEST, step)

    def _emit_either(self, step: PatternNode) -> None:
        ends: list[int] = []
        for child in step.parts[:-1]:
            split = self._emit(_SPLIT, first=len(self._kinds) + 1)
            self._emit_step(child)
            ends.append(self._emit(_JUMP))
            self._second[split] = len(self._kinds)
        self._emit_step(step.parts[-1])
        for end in ends:
            self._first[end] = len(self._kinds)

    def _emit_repeat(self, step: PatternNode) -> None:
        (child,) = step.parts
        for _ in range(step.least):
            self._emit_step(child)
        splits: list[int] = []
        for _ in range(1 if step.most < 0 else step.most - step.least):
            splits.append(self._emit(_SPLIT))
            self._emit_step(child)
        if step.most < 0:
            self._emit(_JUMP, first=splits[0])
        for split in splits:
            inside, outside = split + 1, len(self._kinds)
            self._first[split], self._second[split] = (inside, outside) if step.greedy else (outside, inside)


def _holds(kind: str, text: str, place: int) -> bool:
    match kind:
        case "start":
            return place == 0
        case "end":
            return place == len(text)
        case "line_start":
            return place == 0 or text[place - 1] == "\n"
        case "line_end":
            return place == len(text) or text[place] == "\n"
        case _:
            pass
    before = place > 0 and _is_word(text[place - 1])
    after = place < len(text) and _is_word(text[place])
    return (before != after) == (kind == "boundary")


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


def found_in(text: object, expression: object) -> bool:
    """Return whether a pattern matches somewhere in a text."""
    if not isinstance(text, str):
        raise no_trait("matches", text)
    if not isinstance(expression, str):
        raise SelectorRuntimeError("no such overload")
    return _compiled(expression, "").search(text) is not None


def first_match(text: str, expression: str) -> str:
    """Return the first match, or an empty text."""
    return _first(_compiled(expression, "Illegal regex: "), text)


def find_all(text: str, expression: str, limit: int = -1) -> list[object]:
    """Return the matches that do not overlap."""
    return list(_compiled(expression, "Illegal regex: ").find_all(text, limit))


def _first(compiled: Pattern, text: str) -> str:
    span = compiled.search(text)
    return text[slice(*span)] if span is not None else ""


def _compiled(expression: str, prefix: str) -> Pattern:
    """Return the pattern of a text that is known at run time only, at the expense of the evaluation."""
    try:
        return Pattern(expression)
    except PatternError as error:
        raise SelectorRuntimeError(f"{prefix}{error}") from None


def precompiled(function: str, plain: Function, expression: object) -> tuple[Function, int]:
    """Return a function for a constant pattern, and its instructions; 0 if it is the plain one.

    Raises SelectorCompileError for a pattern that RE2 refuses.
    """
    if not isinstance(expression, str):
        return plain, 0
    try:
        compiled = Pattern(expression)
    except PatternError as error:
        raise SelectorCompileError(f"program instantiation failed: {error}") from None

    def call(text: object, _: object, limit: object = -1) -> object:
        if not isinstance(text, str) or type(limit) is not int:
            raise SelectorRuntimeError("no such overload")
        if function == "matches":
            return compiled.search(text) is not None
        return _first(compiled, text) if function == "find" else list(compiled.find_all(text, limit))

    return call, len(compiled)
