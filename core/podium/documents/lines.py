"""Line numbers of fields in a file, computed only for reported fields: a dump has millions of lines."""

from podium.api.fieldpath import Path, parse_path
from podium.documents import jsondoc, textfile, yamldoc

_BLOCK = 1 << 16


class Lines:
    """Line numbers in one text; results of a call (lists, YAML, line counts) are cached for the next."""

    def __init__(self, text: memoryview) -> None:
        self._text = text
        self._walk = jsondoc.Walk(text)
        self._sections: list[textfile.Section] = []
        self._rest = textfile.sections(text)
        self._yaml: dict[int, dict[Path, int]] = {}
        self._breaks: list[int] = []

    def line(self, document: int, field: str = "") -> int | None:
        """Return the 1-based line of a document's field, or of the deepest part of its path that exists."""
        path = parse_path(field)
        try:
            section = self._section(document)
            if section is None:
                return None
            if section.yaml:
                return self._yaml_line(section, document - section.number, path)
            return self._line_at(self._walk.find(section.start, path))
        except (jsondoc.JsonError, yamldoc.YamlError):
            # The text is malformed after or around the field, which its reader has reported.
            return None

    def _section(self, document: int) -> textfile.Section | None:
        known = self._sections
        while not known or (known[-1].number < document and not known[-1].yaml):
            section = next(self._rest, None)
            if section is None:
                return None
            known.append(section)
        # JSON values are numbered from 1 without a gap; a YAML stream is the last section.
        return known[min(document, len(known)) - 1]

    def _yaml_line(self, section: textfile.Section, ordinal: int, path: Path) -> int | None:
        if ordinal not in self._yaml:
            self._yaml[ordinal] = yamldoc.lines(bytes(self._text[section.start :]), ordinal)
        lines = self._yaml[ordinal]
        deepest = next((path[:size] for size in range(len(path), -1, -1) if path[:size] in lines), None)
        return None if deepest is None else self._line_at(section.start) - 1 + lines[deepest]

    def _line_at(self, offset: int) -> int:
        block = offset // _BLOCK
        while len(self._breaks) <= block:
            start = len(self._breaks) * _BLOCK
            before = bytes(self._text[max(0, start - _BLOCK) : start]).count(b"\n")
            self._breaks.append(before + (self._breaks[-1] if self._breaks else 0))
        return self._breaks[block] + bytes(self._text[block * _BLOCK : offset]).count(b"\n") + 1
