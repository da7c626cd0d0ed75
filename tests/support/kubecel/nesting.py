"""Expressions of many variables, each made from the one before it, and expressions in expressions."""


def bound(start: str, times: int, step: str, result: str) -> str:
    """Return an expression of many variables, each made from the one before it; $ is the last one."""
    text = result.replace("$", f"b{times}")
    for level in range(times, 0, -1):
        text = f"cel.bind(b{level}, {step.replace('$', f'b{level - 1}')}, {text})"
    return f"cel.bind(b0, {start}, {text})"


def within(depth: int, step: str, innermost: str = "true") -> str:
    """Return an expression in itself; each step has its own number for #, and what is in it for $."""
    text = innermost
    for level in range(depth, 0, -1):
        text = step.replace("#", str(level)).replace("$", text)
    return text
