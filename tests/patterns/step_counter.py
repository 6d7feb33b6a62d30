"""A backtracking matcher that counts its steps.

It runs what `re` parses (the tree of `re._parser`) in the order in which `re` tries things, so that the count grows
with a text as the work of `re` does: an instruction is a step. Seconds would depend on the machine; steps do not.

1. It matches what `re` matches, and ends where `re` ends (test_step_counter.py).
2. A repeat of up to `COUNTED_REPEATS` times is unrolled. One with a higher bound is taken as unbounded: a bound of
   500 under a search is 500 steps a character, which a text of some megabytes turns into minutes.
3. `re` has shortcuts (a literal prefix, a set's scan). They save a constant part of the steps, never a power.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

COUNTED_REPEATS = 32
_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.ASCII | re.UNICODE
_CHARACTER, _AT, _SPLIT, _JUMP, _LOOP, _SAVE, _GROUP, _WHOLE, _LOOK, _END = range(10)
_WORD = re.compile(r"\w")
_ASCII_WORD = re.compile(r"\w", re.ASCII)


class TooManySteps(Exception):
    """The budget is spent: nobody waits for the end of an exponential match."""


class Single(NamedTuple):
    """A part of a pattern that takes one character: a literal, a class or a dot."""

    node: tuple[Any, Any]
    flags: int

    def accepts(self, character: str | bytes) -> bool:
        return _accepts(self.node[0], repr(self.node[1]), self, character)


_answers: dict[tuple[Any, str, int, str | bytes], bool] = {}


def _accepts(operator: Any, argument: str, single: Single, character: str | bytes) -> bool:
    """What `re` itself says of the character."""
    key = (operator, argument, single.flags, character)
    if key not in _answers:
        state = _parser.State()
        state.flags = single.flags & int(_FLAGS)
        tree = _parser.SubPattern(state, [single.node])
        _answers[key] = _compiler.compile(tree, single.flags & int(_FLAGS)).match(character) is not None
    return _answers[key]


class Program:
    """A pattern as instructions, each a tuple of an operator and its arguments."""

    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        self.pattern = pattern
        self.tree = _parser.parse(pattern, flags)
        self.flags = self.tree.state.flags
        self.singles: list[Single] = []
        self.code: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._registers = 2 * self.tree.state.groups
        self._referred = set(_referred_groups(self.tree))
        self._sequence(self.tree, self.flags)
        self._emit(_END)
        self._verdicts: list[dict[Any, bool]] = [{} for _ in self.singles]

    @property
    def registers(self) -> int:
        return self._registers

    def accepts(self, number: int, character: str | bytes) -> bool:
        known = self._verdicts[number]
        verdict = known.get(character)
        if verdict is None:
            verdict = known[character] = self.singles[number].accepts(character)
        return verdict

    def _emit(self, *instruction: Any) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def _sequence(self, nodes: Any, flags: int) -> None:
        for node in nodes:
            self._node(node, flags)

    def _node(self, node: tuple[Any, Any], flags: int) -> None:
        operator, argument = node
        match str(operator):
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                self._emit(_CHARACTER, self._number(node, flags))
            case "AT":
                self._emit(_AT, str(argument), flags)
            case "BRANCH":
                self._branch(argument[1], flags)
            case "SUBPATTERN":
                self._group(argument, flags)
            case "MAX_REPEAT" | "MIN_REPEAT":
                self._repeat(argument, flags, greedy=str(operator) == "MAX_REPEAT")
            case "POSSESSIVE_REPEAT":
                self._apart(_WHOLE, lambda: self._repeat(argument, flags, greedy=True))
            case "ATOMIC_GROUP":
                self._apart(_WHOLE, lambda: self._sequence(argument, flags))
            case "ASSERT" | "ASSERT_NOT":
                direction, body = argument
                width = body.getwidth()[0] if direction < 0 else 0
                self._apart(_LOOK, lambda: self._sequence(body, flags), str(operator) == "ASSERT", width)
            case "GROUPREF":
                self._emit(_GROUP, argument)
            case _:
                raise NotImplementedError(f"{operator} in {self.pattern!r}: teach the step counter this operator")

    def _number(self, node: tuple[Any, Any], flags: int) -> int:
        key = (repr(node), flags)
        if key not in self._numbers:
            self._numbers[key] = len(self.singles)
            self.singles.append(Single(node, flags))
        return self._numbers[key]

    def _branch(self, ways: Any, flags: int) -> None:
        ends = []
        for way in ways[:-1]:
            split = self._emit(_SPLIT)
            self._sequence(way, flags)
            ends.append(self._emit(_JUMP))
            self.code[split] = (_SPLIT, split + 1, len(self.code))
        self._sequence(ways[-1], flags)
        for end in ends:
            self.code[end] = (_JUMP, len(self.code))

    def _group(self, argument: Any, flags: int) -> None:
        group, added, removed, body = argument
        flags = (flags | added) & ~removed
        if group in self._referred:
            self._emit(_SAVE, 2 * group)
        self._sequence(body, flags)
        if group in self._referred:
            self._emit(_SAVE, 2 * group + 1)

    def _apart(self, operator: int, body: Callable[[], None], *arguments: Any) -> None:
        """A body that is matched on its own: what follows never goes back into it."""
        start = self._emit(operator)
        body()
        self._emit(_END)
        self.code[start] = (operator, len(self.code), *arguments)

    def _repeat(self, argument: Any, flags: int, *, greedy: bool) -> None:
        low, high, body = argument
        for _ in range(min(low, COUNTED_REPEATS)):
            self._sequence(body, flags)
        if high is _constants.MAXREPEAT or high > COUNTED_REPEATS:
            self._loop(body, flags, greedy=greedy)
        else:
            self._options(body, flags, high - low, greedy=greedy)

    def _loop(self, body: Any, flags: int, *, greedy: bool) -> None:
        if body.getwidth()[0] > 0:
            start = self._emit(_SPLIT)
            self._sequence(body, flags)
            self._emit(_JUMP, start)
            ways = (start + 1, len(self.code))
            self.code[start] = (_SPLIT, *(ways if greedy else reversed(ways)))
            return
        register = self._registers
        self._registers += 1
        start = self._emit(_LOOP)
        self._sequence(body, flags)
        self._emit(_JUMP, start)
        self.code[start] = (_LOOP, register, len(self.code), greedy)

    def _options(self, body: Any, flags: int, count: int, *, greedy: bool) -> None:
        splits = []
        for _ in range(count):
            splits.append(self._emit(_SPLIT))
            self._sequence(body, flags)
        for split in splits:
            ways = (split + 1, len(self.code))
            self.code[split] = (_SPLIT, *(ways if greedy else reversed(ways)))


def _referred_groups(tree: Any) -> Iterator[int]:
    for operator, argument in tree:
        if str(operator) == "GROUPREF":
            yield argument
        else:
            for part in subtrees(argument):
                yield from _referred_groups(part)


def subtrees(argument: Any) -> Iterator[Any]:
    """The parts of a node that are patterns themselves."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for one in argument:
            yield from subtrees(one)


class Counter:
    """Counts the steps of one use of a program on one text."""

    def __init__(self, program: Program, text: str | bytes, budget: int = 1 << 62) -> None:
        self.program, self.text, self.budget = program, text, budget
        self.steps = 0
        self._units = [text[at : at + 1] for at in range(len(text))]

    def match(self, start: int = 0, *, whole: bool = False) -> int | None:
        """Where a match that begins at `start` ends."""
        found = self._run(0, start, (None,) * self.program.registers, whole=whole)
        return None if found is None else found[0]

    def search(self, start: int = 0) -> tuple[int, int] | None:
        for begin in range(start, len(self.text) + 1):
            end = self.match(begin)
            if end is not None:
                return begin, end
        return None

    def find_all(self) -> list[tuple[int, int]]:
        """As `finditer`, `sub` and `split` do, but for an empty match, after which this goes one character on."""
        found: list[tuple[int, int]] = []
        start = 0
        while start <= len(self.text) and (span := self.search(start)) is not None:
            found.append(span)
            start = span[1] + (span[0] == span[1])
        return found

    def tokens(self) -> None:
        """As a scanner does that goes on at the end of each match and stops where there is none."""
        start = 0
        while start < len(self.text):
            end = self.match(start)
            if end is None or end == start:
                return
            start = end

    def _run(
        self, at: int, position: int, registers: tuple[int | None, ...], *, whole: bool = False
    ) -> tuple[int, tuple[int | None, ...]] | None:
        code, units, accepts = self.program.code, self._units, self.program.accepts
        length = len(units)
        waiting: list[tuple[int, int, tuple[int | None, ...]]] = [(at, position, registers)]
        while waiting:
            at, position, registers = waiting.pop()
            while True:
                self.steps += 1
                if self.steps > self.budget:
                    raise TooManySteps
                instruction = code[at]
                operator = instruction[0]
                at += 1
                if operator == _CHARACTER:
                    if position == length or not accepts(instruction[1], units[position]):
                        break
                    position += 1
                elif operator == _SPLIT:
                    at, other = instruction[1], instruction[2]
                    waiting.append((other, position, registers))
                elif operator == _JUMP:
                    at = instruction[1]
                elif operator == _LOOP:
                    register, after, greedy = instruction[1:]
                    if registers[register] == position:  # the body took nothing: once is enough
                        at = after
                        continue
                    entered = _with(registers, register, position)
                    ways = ((at, entered), (after, _with(registers, register, None)))
                    (at, kept), (other, later) = ways if greedy else reversed(ways)
                    waiting.append((other, position, later))
                    registers = kept
                elif operator == _END:
                    if not whole or position == length:
                        return position, registers
                    break
                else:
                    entered_at = self._rare(instruction, at, position, registers)
                    if entered_at is None:
                        break
                    at, position, registers = entered_at
        return None

    def _rare(
        self, instruction: tuple[Any, ...], at: int, position: int, registers: tuple[int | None, ...]
    ) -> tuple[int, int, tuple[int | None, ...]] | None:
        operator = instruction[0]
        if operator == _SAVE:
            return at, position, _with(registers, instruction[1], position)
        if operator == _AT:
            return (at, position, registers) if self._stands(instruction[1], instruction[2], position) else None
        if operator == _GROUP:
            start, end = registers[2 * instruction[1]], registers[2 * instruction[1] + 1]
            if start is None or end is None or not self.text.startswith(self.text[start:end], position):  # type: ignore[arg-type]
                return None
            self.steps += end - start
            return at, position + end - start, registers
        if operator == _WHOLE:
            found = self._run(at, position, registers)
            return None if found is None else (instruction[1], *found)
        after, wanted, width = instruction[1:]
        found = self._run(at, position - width, registers) if position >= width else None
        if (found is not None) is not wanted:
            return None
        return after, position, found[1] if found else registers

    def _stands(self, place: str, flags: int, position: int) -> bool:
        length = len(self._units)
        if place == "AT_BEGINNING_STRING" or (place == "AT_BEGINNING" and not flags & re.M):
            return position == 0
        if place == "AT_END_STRING":
            return position == length
        if place == "AT_BEGINNING":
            return position == 0 or self._units[position - 1] in ("\n", b"\n")
        if place == "AT_END":
            last = position == length - 1 or bool(flags & re.M)
            return position == length or (last and self._units[position] in ("\n", b"\n"))
        boundary = self._is_word(position - 1, flags) is not self._is_word(position, flags)
        return boundary is (place == "AT_BOUNDARY")

    def _is_word(self, position: int, flags: int) -> bool:
        if not 0 <= position < len(self._units):
            return False
        unit = self._units[position]
        if isinstance(unit, bytes):
            return _ASCII_WORD.match(unit.decode("latin-1")) is not None
        return (_ASCII_WORD if flags & re.A else _WORD).match(unit) is not None


def _with(registers: tuple[int | None, ...], number: int, value: int | None) -> tuple[int | None, ...]:
    return (*registers[:number], value, *registers[number + 1 :])


def count_steps(program: Program, use: str, text: str | bytes, budget: int = 1 << 62) -> int:
    """The steps of one use: "match", "fullmatch", "search", "all" (finditer, sub, split) or "tokens"."""
    counter = Counter(program, text, budget)
    match use:
        case "match" | "fullmatch":
            counter.match(whole=use == "fullmatch")
        case "search":
            counter.search()
        case "all":
            counter.find_all()
        case "tokens":
            counter.tokens()
        case _:
            raise ValueError(use)
    return counter.steps
