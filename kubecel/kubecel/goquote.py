"""Quoted texts as Go's strconv writes them.

Source: Go strconv/quote.go.
"""

# The characters that Go escapes by a letter or by themselves in quoted texts.
GO_ESCAPES = str.maketrans(
    {
        '"': '\\"',
        "\\": "\\\\",
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
    }
)


def go_quote(text: str) -> str:
    """Return a text in double quotes as Go's strconv.Quote and %q write it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character: str) -> str:
    code = ord(character)
    if code in GO_ESCAPES:
        return GO_ESCAPES[code]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
