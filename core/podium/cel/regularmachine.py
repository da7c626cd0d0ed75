"""A matcher of regular expressions whose time is linear in the text.

It runs all threads of a pattern side by side in order of priority, as the machine of RE2 does. The work
of one search is bounded, because the cost that Kubernetes charges does not see counted repetitions.

Source: Russ Cox, Regular Expression Matching: the Virtual Machine Approach.
"""

from functools import lru_cache
from typing import NamedTuple

from podium.cel.regularsyntax import MAX_PROGRAM, PatternError, PatternNode, in_class, parse_pattern
from podium.cel.values import CostLimitError

# The most steps of threads in one search.
_MAX_WORK = 5_000_000


class _Instruction(NamedTuple):
    """An instruction: `class` reads a character, `split` and `jump` fork, the others test the place."""

    kind: str
    step: PatternNode | None = None
    first: int = -1
    second: int = -1


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Compile a pattern. Raises PatternError."""
        self._program: list[_Instruction] = []
        self._text = text
        self._emit_step(parse_pattern(text))
        self._emit(_Instruction("match"))
        self._known: dict[tuple[int, str], bool] = {}

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return the leftmost match at or after a place; of several, the one that RE2 prefers."""
        best: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        work = 0
        for place in range(start, len(text) + 1):
            following: list[tuple[int, int]] = []
            if best is None:
                threads.append((0, place))
            ready = self._closure(threads, text, place)
            work += len(ready) + 1
            if work > _MAX_WORK:
                raise CostLimitError
            for counter, begun in ready:
                instruction = self._program[counter]
                if instruction.kind == "match":
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
        found: list[str] = []
        place, last_end = 0, -1
        while place <= len(text) and (limit < 0 or len(found) < limit):
            match = self.search(text, place)
            if match is None:
                break
            begin, end = match
            accept = not (begin == end and begin == last_end)
            place = end if end > begin else end + 1
            last_end = end
            if accept:
                found.append(text[begin:end])
        return found

    def _reads(self, counter: int, character: str) -> bool:
        key = (counter, character)
        found = self._known.get(key)
        if found is None:
            step = self._program[counter].step
            assert step is not None
            found = in_class(step, character)
            if len(self._known) < MAX_PROGRAM:
                self._known[key] = found
        return found

    def _closure(self, threads: list[tuple[int, int]], text: str, place: int) -> list[tuple[int, int]]:
        """Return the threads that read a character or match here, in order of priority."""
        ready: list[tuple[int, int]] = []
        seen: set[int] = set()
        for first, begun in threads:
            waiting = [first]
            while waiting:
                counter = waiting.pop()
                if counter in seen:
                    continue
                seen.add(counter)
                kind, _, left, right = self._program[counter]
                if kind in {"class", "match"}:
                    ready.append((counter, begun))
                elif kind == "jump":
                    waiting.append(left)
                elif kind == "split":
                    waiting += (right, left)
                elif _holds(kind, text, place):
                    waiting.append(counter + 1)
        return ready

    def _emit(self, instruction: _Instruction) -> int:
        if len(self._program) >= MAX_PROGRAM:
            raise PatternError("expression too large", self._text)
        self._program.append(instruction)
        return len(self._program) - 1

    def _emit_step(self, step: PatternNode) -> None:
        match step.kind:
            case "class":
                self._emit(_Instruction("class", step))
            case "empty":
                pass
            case "group" | "sequence":
                for part in step.parts:
                    self._emit_step(part)
            case "either":
                self._emit_either(step)
            case "repeat":
                self._emit_repeat(step)
            case _:
                self._emit(_Instruction(step.kind))

    def _emit_either(self, step: PatternNode) -> None:
        ends: list[int] = []
        for part in step.parts[:-1]:
            split = self._emit(_Instruction("split"))
            self._emit_step(part)
            ends.append(self._emit(_Instruction("jump")))
            self._program[split] = _Instruction("split", None, split + 1, len(self._program))
        self._emit_step(step.parts[-1])
        for end in ends:
            self._program[end] = _Instruction("jump", None, len(self._program))

    def _emit_repeat(self, step: PatternNode) -> None:
        (part,) = step.parts
        for _ in range(step.least):
            self._emit_step(part)
        if step.most < 0:
            split = self._emit(_Instruction("split"))
            self._emit_step(part)
            self._emit(_Instruction("jump", None, split))
            self._program[split] = self._fork(split, greedy=step.greedy)
            return
        splits: list[int] = []
        for _ in range(step.most - step.least):
            splits.append(self._emit(_Instruction("split")))
            self._emit_step(part)
        for split in splits:
            self._program[split] = self._fork(split, greedy=step.greedy)

    def _fork(self, split: int, *, greedy: bool) -> _Instruction:
        inside, outside = split + 1, len(self._program)
        return _Instruction("split", None, *((inside, outside) if greedy else (outside, inside)))


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


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """Return a compiled pattern. Raises PatternError."""
    return Pattern(text)
