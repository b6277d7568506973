"""A sample of the random programs of `tests.compiler.statement_programs`: no effect of a statement is lost."""

from __future__ import annotations

import pytest

from tests.compiler import statement_programs
from tests.compiler.statement_programs import FEATURES, PRELUDE, Call, Program

CALLS = [Call(None, k, False, False, False) for k in (1, 1, 1, 2, 1, 3)]


def compose(feature: str, statement: str, number: int | None = None) -> Program:
    """Return the program of one statement of a feature, with one of its changes before each of the last calls."""
    changes = [f"def change{i}():\n  {each}\n" for i, each in enumerate(FEATURES[feature].changes)]
    lines = "".join(f"  {line}\n" for line in statement.split("\n"))
    source = f"{PRELUDE}{FEATURES[feature].setup}\ndef f(x, k):\n  y = x * 1\n{lines}  return y\n{''.join(changes)}"
    source += f"def observe():\n  return [repr({FEATURES[feature].observed}), *map(repr, log)]\n"
    return Program(source, {}, [call._replace(change=number) if i > 2 else call for i, call in enumerate(CALLS)])


@pytest.mark.unverified("programs that are verified themselves are among them")
@pytest.mark.sampled(8)
@pytest.mark.parametrize("part", range(8))
def test_no_effect_of_a_statement_is_lost(part: int) -> None:
    for seed in range(20 * part, 20 * part + 20):
        assert not statement_programs.check(statement_programs.draw(seed)), seed


@pytest.mark.sampled(8)
@pytest.mark.parametrize("feature", FEATURES)
def test_each_statement_and_change(feature: str) -> None:
    statements, changes = FEATURES[feature].statements, FEATURES[feature].changes
    for i, statement in enumerate(statements):
        assert not statement_programs.check(compose(feature, statement, i % len(changes) if changes else None)), (
            statement
        )


def test_differences_are_found() -> None:
    program = compose("identity", "y = y * (2 if gc.compiler.is_compiling() else 3)")
    assert statement_programs.check(program).startswith("call 0")
    program = compose("identity", "log.append(gc.compiler.is_compiling())")
    assert statement_programs.check(program).startswith("call 0")
