"""Graph breaks: split a function at a statement that cannot be captured.

The statement stays in a function that runs eagerly. The statements before and after it, in its block and in the
enclosing blocks, become functions that are compiled separately: each takes the local names that it reads and returns
those that are read later.
"""

from __future__ import annotations
import __future__

import ast
import types
import warnings
from collections.abc import Callable, Container, Sequence
from typing import Any

from gradcore.compiler.capture import local_names
from gradcore.compiler.capture.local_names import LocalNames, Unclear, names_bound_by, parameters_of
from gradcore.compiler.capture.sources import codes_in, keep_tree, statements_in, statements_of, tree_of

__all__ = ["cut"]

_RESUMES = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators: inspect.CO_*
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
#: Functions whose result depends on the local variables of their caller.
_INSPECTING = frozenset(["dir", "eval", "exec", "locals", "vars"])
_LOOPS = (ast.For, ast.While)
#: Statements that never move to a part, because they bind objects that are no values of a program.
_LEFT = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal,
    ast.Pass, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip
#: The name of `UnboundLocalError` in split functions, which no variable of a user can have.
_UNBOUND = "<UnboundLocalError>"
#: Nodes of which a part must contain one to be worth a program.
_WORK = (ast.Call, ast.BinOp, ast.AugAssign)


def cut(function: Any, offset: int, compiled: Callable[[Any], Any]) -> Callable[..., Any] | None:
    """Return a copy of a function in which the statements before and after one statement are compiled.

    Parameters
    ----------
    function : function
    offset : int
        The offset of an instruction of the statement that is not compiled.
    compiled : callable
        Compiles a part: ``(function) -> callable``.

    Returns
    -------
    function or None
        None if there is nothing else to compile, or the source is missing or cannot be split.
    """
    code = function.__code__
    tree = tree_of(code)
    if not isinstance(tree, ast.FunctionDef) or code.co_flags & _RESUMES:
        return None
    statement = statements_of(code, tree)[offset // 2]
    if statement is None:
        return None
    try:
        cutter = _Cutter(tree, function, compiled, statement)
        body = cutter.suite(tree.body, cutter.parameters, frozenset())
    except (Unclear, SyntaxError):
        return None
    if not cutter.parts:
        return None
    body.append(cutter.keeps_names())
    main = ast.FunctionDef(**{**dict(ast.iter_fields(tree)), "body": body, "decorator_list": []})
    result = _function(ast.copy_location(main, tree), function, {_UNBOUND: UnboundLocalError, **cutter.parts})
    result.__defaults__, result.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return result


def _function(tree: Any, function: Any, names: dict[str, Any]) -> types.FunctionType:
    """Return a function built from a syntax tree, with the globals and cells of another function, and more cells."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells.update((name, types.CellType(value)) for name, value in names.items())
    # No function of a user can have this name.
    hidden = ast.FunctionDef(**{**dict(ast.iter_fields(tree)), "name": "<function>"})
    wrapper: Any = ast.parse("def around(): pass")
    wrapper.body[0].args.args = [ast.arg(name) for name in cells]
    wrapper.body[0].body = [ast.copy_location(hidden, tree)]
    with warnings.catch_warnings(action="ignore"):  # Python gave them when it loaded the source
        module = compile(ast.fix_missing_locations(wrapper), code.co_filename, "exec", code.co_flags & _FUTURE, True)
    new_code = next(each for each in codes_in(module) if each.co_name == hidden.name)
    new_code = new_code.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    closure = tuple(cells[name] for name in new_code.co_freevars)
    result = types.FunctionType(new_code, function.__globals__, tree.name, None, closure)
    result.__qualname__, result.__module__ = function.__qualname__, function.__module__
    keep_tree(new_code, tree)
    return result


class _Cutter:
    """The state of splitting one function.

    Attributes
    ----------
    parts : dict
        The compiled parts, by the names under which the rest of the function calls them.
    """

    def __init__(self, tree: Any, function: Any, compiled: Callable[[Any], Any], statement: Any) -> None:
        self.tree, self.function, self.compiled = tree, function, compiled
        self.parts: dict[str, Any] = {}
        self.local, self.parameters = frozenset(local_names.names_bound_in(tree)), set(parameters_of(tree))
        #: The statement that is not compiled, and the statements that contain it.
        self.staying = {id(node) for node in ast.walk(tree) if any(each is statement for each in ast.walk(node))}
        #: The ``with`` statements that may suppress errors.
        contexts = [node for node in ast.walk(tree) if isinstance(node, ast.With)]
        self.suppressing = {id(node) for node in contexts if not all(map(self._lets_errors_pass, node.items))}
        #: The nodes in loops.
        self.repeated = {id(n) for loop in ast.walk(tree) if isinstance(loop, _LOOPS) for n in ast.walk(loop)}
        self.captured = local_names.captured_names(tree) & self.local
        self.declared = [n for n in ast.walk(tree) if isinstance(n, (ast.Global, ast.Nonlocal))]
        self._check()
        #: Names read after an enclosing ``with`` statement, which may suppress an error in the middle of a part.
        self.after_errors: frozenset[str] = frozenset()

    def _check(self) -> None:
        """Raise `Unclear` for constructs that would mean something else in a separate function."""
        names = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        if not _INSPECTING.isdisjoint(names) or any(w.startswith("__") and not w.endswith("__") for w in names):
            raise Unclear("the function inspects its local names, or uses private names of a class")
        stores = [(name, node) for node in ast.walk(self.tree) for name in names_bound_by(node)]
        loops = [{*map(id, ast.walk(node))} for node in ast.walk(self.tree) if isinstance(node, _LOOPS)]
        for name in self.captured:
            bound = [node for each, node in stores if each == name]
            if len(bound) + (name in self.parameters) > 1 or any(id(each) in loop for each in bound for loop in loops):
                raise Unclear("a nested function reads a name that is bound more than once")
        for node in self.declared:
            if node not in self.tree.body:
                raise Unclear("`global` or `nonlocal` stands in a block or in a nested function")

    def keeps_names(self) -> Any:
        """Return a statement without effect that keeps all local names local, even if only parts bind them now."""
        names: list[Any] = [ast.Name(name, ast.Store()) for name in sorted(self.local - self.parameters)]
        bind = ast.Assign(names, ast.Constant(None)) if names else ast.Pass()
        return ast.fix_missing_locations(ast.copy_location(ast.If(ast.Constant(False), [bind], []), self.tree.body[-1]))

    # -- blocks -----------------------------------------------------------------------------------------------------

    def suite(self, body: Sequence[Any], bound: set[str], later: frozenset[str]) -> list[Any]:
        """Return the statements of a block, with runs of statements replaced by calls of parts where possible.

        Parameters
        ----------
        body : list of statements
        bound : set of str
            The local names that are bound before the block.
        later : frozenset of str
            The local names that may be read after the block.
        """
        names, out = LocalNames(self.local, bound, self.suppressing), []
        run: list[Any] = []
        bound_before = set(bound)

        def end_of_run(end: int) -> None:
            nonlocal run
            if run:
                out.extend(self.part(run, bound_before, later | self._reads(body[end:])))
            run = []

        for i, statement in enumerate(body):
            # A part could not return names that a suppressed error leaves unbound.
            suppresses = id(statement) in self.suppressing and _names_bound_within(statement) - names.bound
            stays = suppresses or id(statement) in self.staying
            if stays or not self._movable(statement):
                end_of_run(i)
                read_later = later | self._reads(body[i + 1 :])
                out.append(self._split_inside(statement, set(names.bound), read_later) if stays else statement)
                names.visit(statement)
                bound_before = set(names.bound)
                continue
            run.append(statement)
            names.visit(statement)
            if isinstance(statement, ast.Return):
                end_of_run(i + 1)
        end_of_run(len(body))
        return out

    def _reads(self, statements: Sequence[Any]) -> frozenset[str]:
        """Return the local names that statements, or functions in them, may read."""
        nodes = [node for each in statements for node in ast.walk(each)]
        results = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        targets = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
        return self.local & results.union(node.id for node in targets if isinstance(node, ast.Name))

    def _split_inside(self, statement: Any, bound: set[str], later: frozenset[str]) -> Any:
        """Return a statement that is not moved to a part, with its inner blocks split."""
        if not isinstance(statement, (ast.If, ast.With, *_LOOPS)):
            return statement
        outer_after_errors = self.after_errors
        names = LocalNames(self.local, bound, self.suppressing)
        if isinstance(statement, _LOOPS):
            later |= self._reads([statement])  # The next iteration reads them.
            names.visit(statement)  # An earlier iteration may have unbound names.
            names.bound, bound = bound - names.unbound, bound - names.unbound
        if isinstance(statement, ast.For):
            names.block([statement.iter, statement.target])
        elif isinstance(statement, ast.With):
            names.block(statement.items)
            if id(statement) in self.suppressing:
                self.after_errors |= later
        fields = dict(ast.iter_fields(statement))
        for name, start in (("body", names.bound), ("orelse", bound)):
            if fields.get(name):
                fields[name] = self.suite(fields[name], set(start), later)
        self.after_errors = outer_after_errors
        return ast.copy_location(type(statement)(**fields), statement)

    def _lets_errors_pass(self, item: Any) -> bool:
        """Return whether an item of ``with`` suppresses no errors: it calls a global function or class of gradcore."""
        name, *path = ast.unparse(getattr(item.context_expr, "func", ast.Constant(None))).split(".")
        own_names = self.local.union(self.function.__code__.co_freevars)
        value = None if name in own_names else self.function.__globals__.get(name)
        for name in path:
            value = getattr(value, name, None) if isinstance(value, types.ModuleType) else None
        return str(getattr(value, "__module__", "")).partition(".")[0] == "gradcore"

    def _movable(self, statement: Any) -> bool:
        """Return whether a statement can move to a separate function."""
        if isinstance(statement, _LEFT):
            return False
        if isinstance(statement, ast.Return):
            return statement.value is not None and not _is_special(statement)
        return not (_leaves(statement, False) or _is_special(statement))

    # -- parts ------------------------------------------------------------------------------------------------------

    def part(self, run: Sequence[Any], before: set[str], later: frozenset[str]) -> list[Any]:
        """Return statements equivalent to a run: a call of a compiled function, or the run itself.

        Parameters
        ----------
        run : list of statements
        before : set of str
            The local names that are bound before them.
        later : frozenset of str
            The local names that may be read after them.
        """
        if not any(isinstance(node, _WORK) for each in run for node in ast.walk(each)):
            return [*run]
        names = LocalNames(self.local, (), self.suppressing)
        names.block(run)
        returns = isinstance(run[-1], ast.Return)
        outs = [] if returns else sorted(names.written & (later | self.captured))
        # Reading a name that only this run binds, and has not bound, is an error here as in the whole function, except
        # in a loop, where an earlier iteration may have bound it.
        inside = {id(node) for each in run for node in ast.walk(each)} - self.repeated
        exposed = names.exposed & (self.parameters | _names_bound_within(self.tree, inside))
        arguments = sorted(exposed.union(name for name in outs if name not in names.bound))
        binds_at_once = self.after_errors.isdisjoint(outs) or (len(run) == 1 and _binds_at_its_end(run[0]))
        if not (binds_at_once and names.unbound.isdisjoint(outs)):
            return [*run]
        load: list[Any] = [ast.Name(name, ast.Load()) for name in outs]
        store: list[Any] = [ast.Name(name, ast.Store()) for name in outs]
        body = [*self.declared, *run]
        if outs:
            body.append(_place_after(ast.Return(load[0] if len(outs) == 1 else ast.Tuple(load, ast.Load())), run[-1]))
        head: Any = ast.parse(f"def {self.tree.name}(): pass").body[0]
        head.args.args, head.body = [ast.arg(name) for name in arguments], body
        head.lineno = head.end_lineno = run[0].lineno
        ast.copy_location(head.args, run[0])
        name = f"part {len(self.parts)} of {self.function.__code__.co_name}"
        self.parts[name] = self.compiled(_function(head, self.function, {}))
        given: list[Any] = [ast.Name(each, ast.Load()) for each in arguments]
        call: Any = ast.Call(ast.Name(name, ast.Load()), given, [])
        replacement: Any = ast.Return(call) if returns else ast.Expr(call)
        if outs:
            replacement = ast.Assign([store[0] if len(outs) == 1 else ast.Tuple(store, ast.Store())], call)
        if not before.issuperset(arguments):
            # Statements that may not read an unbound name run as they are: passing the name would be an error.
            handler = ast.ExceptHandler(ast.Name(_UNBOUND, ast.Load()), None, [*run])
            replacement = ast.Try([ast.Expr(ast.Tuple(given, ast.Load()))], [handler], [replacement], [])
        return [ast.fix_missing_locations(ast.copy_location(replacement, run[0]))]


def _place_after(statement: Any, last: Any) -> Any:
    """Set a statement's position to the empty range after `last`, where the source has no code; return it."""
    nodes: list[Any] = [*ast.walk(statement)]
    for node in nodes:
        node.lineno = node.end_lineno = last.end_lineno
        node.col_offset = node.end_col_offset = last.end_col_offset
    return statement


def _binds_at_its_end(statement: Any) -> bool:
    """Return whether a statement binds names only as its last action."""
    if not isinstance(statement, ast.Assign) or any(isinstance(node, ast.NamedExpr) for node in ast.walk(statement)):
        return False
    targets = statement.targets
    if len(targets) == 1 and isinstance(targets[0], ast.Tuple):
        targets = targets[0].elts
    return all(isinstance(node, ast.Name) for node in targets)


def _names_bound_within(statement: ast.AST, left_out: Container[int] = ()) -> set[str]:
    """Return the names that a statement binds, except in the nodes whose ids are in `left_out`."""
    return {name for node in ast.walk(statement) if id(node) not in left_out for name in names_bound_by(node)}


def _is_special(statement: Any) -> bool:
    """Return whether a statement would have a different meaning in a separate function."""
    return any(isinstance(n, ast.Name) and n.id in ("super", "__class__") for n in ast.walk(statement))


def _leaves(statement: Any, in_loop: bool) -> bool:
    """Return whether a statement may leave its block, by ``return`` or by leaving the loop."""
    if isinstance(statement, ast.Return) or (isinstance(statement, (ast.Break, ast.Continue)) and not in_loop):
        return True
    if isinstance(statement, (*_LEFT, ast.Match)) and not isinstance(statement, ast.Pass):
        return True
    is_inside_loop = in_loop or isinstance(statement, _LOOPS)
    return any(_leaves(each, is_inside_loop) for each in statements_in(statement))
