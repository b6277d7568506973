"""PTX, as NVRTC writes it, as C++: a function that does what one thread of a kernel does.

Registers become variables of bits, and an instruction a call of the function of its name in `instructions.h`; what that
lacks, g++ names when it compiles the result. Here is only what instructions have of their own: operands in memory,
several results, jumps, calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Unsupported", "translate"]

#: Bytes of PTX's types.
WIDTHS = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
#: What registers are kept in, by their bytes.
HELD = {1: "u16", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}
DOUBLED = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64", "u64": "u128", "s64": "__int128"}

#: Modifiers that change nothing here: rounding to the nearest, what is computed more exactly than it must be, the order
#: of threads that take turns, caches.
PLAIN = {
    "rn", "approx", "full", "lo", "uni", "sync", "aligned", "relaxed", "release", "acquire", "acq_rel", "volatile",
    "weak", "gpu", "cta", "sys", "noftz", "ftz", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt",
}  # fmt: skip
#: Instructions that order or hasten accesses.
NOTHING = {
    "membar", "fence", "nanosleep", "prefetch", "prefetchu", "griddepcontrol", "discard", "applypriority", "pmevent",
    "nop", "setmaxnreg",
}  # fmt: skip
ATOMICS = {"add", "cas", "exch", "min", "max", "and", "or", "xor", "inc", "dec"}
KEYWORDS = {"and", "or", "xor", "not"}
#: The types of operands that are not those of the instruction, by its name and the operand's number.
OPERANDS = {
    **{(name, 1): "u32" for name in ("shl", "shr", "bfe", "redux")},
    **{(name, 2): "u32" for name in ("bfe", "bfi", "shf")}, ("bfi", 3): "u32",
}  # fmt: skip
SPACES = ("global", "shared", "local", "param", "const")

_LANE = "(cupyhost_current % 32)"
SPECIAL = {
    **{
        f"%{name}.{dim}": f"cupyhost_{variable}.{dim}"
        for name, variable in (("tid", "thread"), ("ntid", "block_size"), ("ctaid", "block"), ("nctaid", "grid_size"))
        for dim in "xyz"
    },
    "%laneid": _LANE, "%warpid": "(cupyhost_current / 32)", "WARP_SZ": "32", "%clock": "0", "%clock64": "0",
    "%globaltimer": "0", "%smid": "0", "%nsmid": "4", "%gridid": "0", "%dynamic_smem_size": "cupyhost_dynamic_bytes",
    "%lanemask_lt": f"((1u << {_LANE}) - 1)", "%lanemask_le": f"((2u << {_LANE}) - 1)",
    "%lanemask_gt": f"~((2u << {_LANE}) - 1)", "%lanemask_ge": f"~((1u << {_LANE}) - 1)",
    "%lanemask_eq": f"(1u << {_LANE})",
}  # fmt: skip

WHOLE = re.compile(r"-?(0[xX][0-9A-Fa-f]+|\d+)U?$")
VARIABLE = re.compile(r"(?:\.align (\d+) )?\.(\w+) ([\w$.]+)((?: ?\[\d*\])*)(?: ?= ?(.*))?$")
PARAMETER = re.compile(
    r"\.(?:param|reg) (?:\.align (\d+) )?\.(\w+)(?: \.ptr(?: \.\w+)?(?: \.align \d+)?)? ([\w$%]+)(?:\[(\d+)\])?$"
)


class Unsupported(Exception):
    """PTX of a kind that the rig does not translate."""


class Variable(NamedTuple):
    """An array of bytes with a name: a parameter, or memory of a module or a thread."""

    name: str
    size: int
    align: int
    values: str = ""


def translate(ptx: str, symbols: dict[str, str]) -> str:
    """C++ of all kernels of a module.

    Parameters
    ----------
    ptx : str
    symbols : dict of str to str
        Under which names the launcher finds kernels, by those that they have in PTX, where the two differ.
    """
    module = Module(ptx)
    code = [function.code() for function in module.functions]
    entries = [f.exported(symbols.get(f.name, f.name)) for f in module.functions if f.is_entry]
    shared = ", ".join(
        f"{{(char*) {at}, (char*) {at + variable.size}}}" for variable, at in module.shared.values()
    )  # fmt: skip
    return "\n".join([
        '#include "instructions.h"', "namespace ptx {",
        f"const Range shared_variables[] = {{{shared or '{}'}}};",
        f"const unsigned shared_count = {len(module.shared)}, shared_bytes = {module.dynamic_start()};",
        *module.declarations, *(f"{f.signature};" for f in module.functions), *code, "}", *entries,
        "EXPORT unsigned cupyhost_static_bytes() { return ptx::shared_bytes; }", "",
    ])  # fmt: skip


def identifier(name: str) -> str:
    """Convert a name of PTX to an identifier of C++."""
    return re.sub(r"\W", "_", name.removeprefix("%").replace("$", "_S_"))


def split(text: str) -> list[str]:
    """Operands, which commas separate outside of brackets."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            found.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*found, last] if last else found


def inside(text: str) -> list[str]:
    """Return the elements of ``{a, b}``, or the text itself if it has no braces."""
    return split(text[1:-1]) if text.startswith("{") else [text]


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Braces, labels and statements, in their order; lists of targets as statements too."""
    pattern = re.compile(r"\s*(?:([{}])|([$%\w.]+)\s*:(?!:)|;)")
    at = 0
    while at < len(text.rstrip()):
        found = pattern.match(text, at)
        if found and found[1]:
            yield found[1], ""
        elif found and found[2]:
            yield "label", found[2]
        elif not found:
            end = text.index(";", at)
            yield "statement", re.sub(r"\s+", " ", text[at:end]).strip()
            at = end + 1
            continue
        at = found.end()


class Module:
    """What a module declares, and its functions."""

    def __init__(self, ptx: str) -> None:
        self.functions: list[Function] = []
        self.declarations: list[str] = []
        self.variables: dict[str, str] = {}
        #: Variables in shared memory, and where they begin; the array of which the launch says the size.
        self.shared: dict[str, tuple[Variable, int]] = {}
        self.dynamic: Variable | None = None
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", ptx, flags=re.DOTALL)
        at = 0
        heads = re.compile(r"\s*(?:\.(?:version|target|address_size|file)[^\n]*|;)|\s+$")
        while at < len(text):
            if skipped := heads.match(text, at):
                at = skipped.end()
                continue
            end = at + re.search(r"[;{=]", text[at:]).start()  # type: ignore[union-attr]
            head = re.sub(r"\s+", " ", text[at:end]).strip()
            if re.search(r"\.(entry|func)\b", head):
                at = self._function(head, text, end)
            else:
                end = text.index(";", at)
                words = re.sub(r"\s+", " ", text[at:end]).strip()
                space = re.match(r"(?:\.(?:visible|extern|weak|common) )*\.(global|const|shared) (.*)", words)
                if space is None:
                    raise Unsupported(words[:80])
                self.declare(space[1], space[2])
                at = end + 1

    def _function(self, head: str, text: str, at: int) -> int:
        if text[at] == ";":  # only declared
            return at + 1
        depth, end = 0, at
        while True:
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
            if not depth:
                break
        self.functions.append(Function(self, head, text[at + 1 : end - 1]))
        return end

    def declare(self, space: str, text: str) -> None:
        """Make room for a variable of a module."""
        variable = variable_of(text)
        if space == "shared":
            if not variable.size:
                self.dynamic = variable
            elif variable.name not in self.shared:
                end = max((at + v.size for v, at in self.shared.values()), default=0)
                self.shared[variable.name] = variable, -(-end // variable.align) * variable.align
            return
        name = f"m_{identifier(variable.name)}"
        self.variables[variable.name] = name
        start = f" = {{{variable.values}}}" if variable.values else ""
        width = WIDTHS[re.search(r"\.(\w+) [\w$.]+(?: ?\[|$| ?=)", text)[1]]  # type: ignore[index]
        kind = "u8" if width == 1 else HELD[width]
        self.declarations.append(
            f"static {kind} {name}[{max(variable.size // width, 1)}] "
            f"__attribute__((section('module_data'), aligned({max(variable.align, 16)}))){start};".replace("'", '"')
        )

    def static_bytes(self, entry: Function) -> int:
        """Shared memory that a kernel has whatever the launch says."""
        text = "".join(f.body for f in self.functions if f is entry or not f.is_entry)
        return sum(
            v.size for v, _ in self.shared.values() if re.search(rf"(?<![\w$]){re.escape(v.name)}(?![\w$])", text)
        )

    def dynamic_start(self) -> int:
        """Where shared memory begins of which the launch says the size."""
        end = max((at + v.size for v, at in self.shared.values()), default=0)
        align = max(16, self.dynamic.align if self.dynamic else 1)
        return -(-end // align) * align


def variable_of(text: str) -> Variable:
    """Parse a declaration, with its initial values in C++."""
    found = VARIABLE.match(text)
    if not found:
        raise Unsupported(text[:80])
    align, kind, name, dims, values = found.groups()
    size = WIDTHS[kind]
    for dim in re.findall(r"\[(\d*)\]", dims):
        size *= int(dim or 0)
    listed = [_initial(v, kind) for v in re.split(r"[{},\s]+", values or "") if v]
    return Variable(name, size, int(align or WIDTHS[kind]), ", ".join(listed))


def _initial(text: str, kind: str) -> str:
    if re.fullmatch(r"0[fFdD][0-9A-Fa-f]+", text):
        return f"0x{text[2:]}ull"
    if WHOLE.match(text):
        return (
            f"({HELD[WIDTHS[kind]] if kind not in ('b8', 'u8', 's8') else 'u8'}) {int(text.rstrip('U'), 0) % 2**64}ull"
        )
    raise Unsupported(f"the value {text}")


class Function:
    """A kernel, or what one calls."""

    def __init__(self, module: Module, head: str, body: str) -> None:
        self.module, self.body = module, body
        self.is_entry = ".entry" in head
        found = re.search(r"\.(?:entry|func) (?:\(([^)]*)\) )?([\w$]+) ?(?:\((.*?)\))?(.*)$", head)
        if not found:
            raise Unsupported(head[:80])
        results, self.name, parameters, directives = found.groups()
        self.results, self.parameters = ([_parameter(p) for p in split(text or "")] for text in (results, parameters))
        bound = re.search(r"\.(?:maxntid|reqntid) ([\d, ]+)", directives)
        self.bound = 1024
        if bound:
            self.bound = 1
            for n in bound[1].replace(" ", "").strip(",").split(","):
                self.bound *= int(n)
        #: Registers, by their beginnings or whole names, with their types; memory that has a name here.
        self.registers: dict[str, str] = {}
        self.memory: set[str] = set()
        self.targets: dict[str, list[str]] = {}
        names = [f"char* {identifier(v.name)}" for v in (*self.results, *self.parameters)]
        self.signature = (
            f"static void entry_{identifier(self.name)}(void** arguments)" if self.is_entry
            else f"static void function_{identifier(self.name)}({', '.join(names)})"
        )  # fmt: skip

    def exported(self, symbol: str) -> str:
        """Return the symbols by which the launcher finds a kernel."""
        sizes = ", ".join([*(str(p.size) for p in self.parameters), "0"])
        return "\n".join([
            f"EXPORT void cupyhost_thread_{symbol}(void** a) {{ ptx::entry_{identifier(self.name)}(a); }}",
            f"EXPORT const size_t* cupyhost_sizes_{symbol}() {{",
            f"    static const size_t sizes[] = {{{sizes}}};\n    return sizes;\n}}",
            f"EXPORT const int cupyhost_bound_{symbol} __attribute__((used)) = {self.bound};",
            f"EXPORT const int cupyhost_static_{symbol} __attribute__((used)) = {self.module.static_bytes(self)};",
        ])  # fmt: skip

    def code(self) -> str:
        """Return the function as C++ code."""
        lines = [f"{self.signature} {{", "u32 carry = 0;"]
        if "cp.async" in self.body:
            lines.append("Copies copies;")
        parts = list(pieces(self.body))
        for i, (kind, text) in enumerate(parts):
            if kind == "label" and parts[i + 1][1].startswith(".branchtargets"):
                self.targets[text] = split(parts[i + 1][1].removeprefix(".branchtargets"))
        for kind, text in parts:
            if kind == "label":
                lines.append(f"{identifier(text)}:;")
            else:
                lines.append(self.statement(text) if kind == "statement" else kind)
        return "\n".join([*lines, "}"])

    def statement(self, text: str) -> str:
        """Translate a declaration or an instruction."""
        if text.startswith(".reg "):
            return self._registers(text)
        if text.startswith((".local ", ".param ")):
            variable = variable_of(text.split(" ", 1)[1])
            self.memory.add(variable.name)
            return f"alignas({max(variable.align, 16)}) char {identifier(variable.name)}[{max(variable.size, 16)}];"
        if text.startswith((".shared ", ".global ", ".const ")):
            self.module.declare(*text[1:].split(" ", 1))
            return ""
        if text.startswith("."):  # hints
            return ""
        return Instruction(self, text).code()

    def _registers(self, text: str) -> str:
        _, kind, names = text.split(" ", 2)
        held = "bool" if kind == ".pred" else HELD[WIDTHS[kind[1:]]]
        each = []
        for name in split(names):
            many = re.match(r"(.*)<(\d+)>$", name)
            each += [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]
            self.registers[many[1] if many else name] = held
        return f"{held} {', '.join(f'v_{identifier(n)}' for n in each)};"

    def held(self, name: str) -> str | None:
        """Return the C++ type of a register, or None if the name is not that of a register."""
        return self.registers.get(name) or (self.registers.get(name.rstrip("0123456789")) if name[0] == "%" else None)

    def address_of(self, name: str) -> str:
        """Return the address of a name, or its offset in shared memory."""
        if name in self.memory:
            return f"(u64) {identifier(name)}"
        if name in self.module.shared:
            return f"{self.module.shared[name][1]}ull"
        if self.module.dynamic and name == self.module.dynamic.name:
            return "u64(shared_bytes)"
        if name in self.module.variables:
            return f"(u64) {self.module.variables[name]}"
        for i, parameter in enumerate(self.parameters):
            if parameter.name == name:
                return f"(u64) arguments[{i}]" if self.is_entry else f"(u64) {identifier(name)}"
        if any(result.name == name for result in self.results):
            return f"(u64) {identifier(name)}"
        raise Unsupported(f"the name {name}")


def _parameter(text: str) -> Variable:
    found = PARAMETER.match(text)
    if not found:
        raise Unsupported(text)
    align, kind, name, count = found.groups()
    return Variable(name, WIDTHS[kind] * int(count or 1), int(align or WIDTHS[kind]))


class Instruction:
    """An instruction: its name, modifiers and operands."""

    def __init__(self, function: Function, text: str) -> None:
        self.function, self.text = function, text
        found = re.match(r"(?:@(!?)([%\w$]+) )?([\w.:]+) ?(.*)$", text)
        if not found:
            raise Unsupported(text)
        negated, guard, self.code_name, self.rest = found.groups()
        self.guard = "" if guard is None else f"if ({negated}v_{identifier(guard)}) "
        self.name, *self.modifiers = self.code_name.replace("::", "_").split(".")
        self.types = [m for m in self.modifiers if m in WIDTHS]
        self.type = self.types[-1] if self.types else ""
        self.operands = split(self.rest)
        self.has_ftz = "ftz" in self.modifiers

    def code(self) -> str:
        """Return the instruction as C++ code."""
        if self.name in NOTHING:
            return ""
        own: Callable[[], str] | None = getattr(self, f"_{self.name}", None)
        return f"{self.guard}{{ {(own or self._plain)()} }}"

    # -- operands ----------------------------------------------------------------------------------------------------

    def value(self, operand: str, kind: str) -> str:
        """Return an operand as a number of a type."""
        if operand.startswith("!"):
            return f"!{self.value(operand[1:], kind)}"
        if operand in SPECIAL:
            return f"{kind}({SPECIAL[operand]})"
        if re.fullmatch(r"0[fF][0-9A-Fa-f]{8}", operand):
            return f"get<{kind}>(u32(0x{operand[2:]}))"
        if re.fullmatch(r"0[dD][0-9A-Fa-f]{16}", operand):
            return f"get<{kind}>(u64(0x{operand[2:]}))"
        if WHOLE.match(operand):
            number = f"{int(operand.rstrip('U'), 0) % 2**64}ull"
            is_whole = kind[0] in "bsu" and kind != "bf16" and kind != "bf16x2"
            return f"{kind}({number})" if is_whole or kind == "pred" else f"get<{kind}>({HELD[WIDTHS[kind]]}({number}))"
        held = self.function.held(operand)
        if held:  # g++ is quicker where nothing is called
            name, as_it_is = f"v_{identifier(operand)}", "bool" if kind == "pred" else re.sub("^b(?=[0-9])", "u", kind)
            return name if as_it_is == held else f"get<{kind}>({name})"
        return f"get<{kind}>({self.symbol(operand)})"

    def symbol(self, text: str) -> str:
        """Return the address of a name with an offset."""
        name, plus, offset = text.partition("+")
        return f"u64({self.function.address_of(name.strip())}{plus}{offset})"

    def number(self, operand: str, kind: str) -> str:
        """Return an operand, with subnormal numbers flushed to zero if the instruction says so."""
        found = self.value(operand, kind)
        return f"ftz({found})" if self.has_ftz and kind == "f32" else found

    def put(self, operand: str, value: str) -> str:
        """Write a value to a register."""
        return f"put({'Sink()' if operand == '_' else f'v_{identifier(operand)}'}, {value});"

    @property
    def space(self) -> str:
        """Where memory is; global where any may be meant."""
        return next((space for space in SPACES for m in self.modifiers if m.split("_")[0] == space), "global")

    def pointer(self, operand: str, size: int, space: str) -> str:
        """Return a pointer to `size` bytes at an operand in brackets, checked at run time if memory is watched."""
        inner = operand.strip("[] ")
        base, _, offset = (part.strip() for part in inner.partition("+"))
        if self.function.held(base):
            address = f"v_{identifier(base)}"
        else:
            address = f"{int(base, 0)}ull" if WHOLE.match(base) else self.function.address_of(base)
        address = f"{address} + {int(offset, 0)}" if offset else address
        if space in ("param", "local", "const"):
            return f"reinterpret_cast<char*>({address})"
        return f'AT({space}, {address}, {size}, "{self.code_name}")'

    # -- instructions of numbers ---------------------------------------------------------------------------------------

    def _plain(self) -> str:
        named = [m for m in self.modifiers if m not in PLAIN and m not in WIDTHS]
        is_real = self.type[:1] == "f" or self.type[:2] == "bf"
        saturates = is_real and "sat" in named
        named = [m for m in named if not (saturates and m == "sat")]
        name = "_".join([self.name, *named]) + ("_" if self.name in KEYWORDS and not named else "")
        kinds = [OPERANDS.get((self.name, i), self.type) for i in range(len(self.operands) - 1)]
        if self.name == "mad" and "wide" in named:
            kinds[2] = DOUBLED[self.type]
        arguments = [self.number(x, kind) for x, kind in zip(self.operands[1:], kinds, strict=True)]
        if self.name in ("addc", "subc", "madc") or "cc" in named:
            arguments.insert(0, "carry")
        found = f"{name}({', '.join(arguments)})"
        if self.has_ftz and self.type == "f32" and self.name != "testp":
            found = f"ftz({found})"
        return self.put(self.operands[0], f"saturated({found})" if saturates else found)

    def _setp(self) -> str:
        compare, *others = (m for m in self.modifiers if m not in ("ftz", self.type))
        first, *second = self.operands[0].split("|")
        lines = [f"const bool c_ = {compare}({', '.join(self.number(x, self.type) for x in self.operands[1:3])});"]
        for operand, result in zip([first, *second], ["c_", "!c_"], strict=False):
            if others:
                sign = {"and": "&", "or": "|", "xor": "!="}[others[0]]
                result = f"({result}) {sign} ({self.value(self.operands[3], 'pred')})"
            lines.append(self.put(operand, result))
        return " ".join(lines)

    def _set(self) -> str:
        arguments = ", ".join(self.number(x, self.type) for x in self.operands[1:3])
        yes = "1.0f" if self.types[0] == "f32" else f"{self.types[0]}(-1)"
        return self.put(self.operands[0], f"{self.modifiers[0]}({arguments}) ? {yes} : {self.types[0]}(0)")

    def _selp(self) -> str:
        a, b = (self.value(x, self.type) for x in self.operands[1:3])
        return self.put(self.operands[0], f"{self.value(self.operands[3], 'pred')} ? {a} : {b}")

    def _slct(self) -> str:
        a, b = (self.value(x, self.types[0]) for x in self.operands[1:3])
        return self.put(self.operands[0], f"{self.number(self.operands[3], self.types[1])} >= 0 ? {a} : {b}")

    def _cvt(self) -> str:
        to, source = self.types[-2:] if len(self.types) > 1 else self.types * 2
        arguments = ", ".join(self.number(x, source) for x in self.operands[1:])
        rounding = [m for m in self.modifiers if m in ("rni", "rzi", "rmi", "rpi", "rz", "rm", "rp", "rna")]
        saturates = "sat" in self.modifiers and not rounding
        name = "cvt_pair" if to.endswith("x2") else "_".join(["cvt", *rounding, *(["sat"] if saturates else [])])
        found = f"{name}<{to}>({arguments})"
        if "sat" in self.modifiers and rounding and to[0] == "f":
            found = f"saturated({found})"
        return self.put(self.operands[0], f"ftz({found})" if self.has_ftz and to == "f32" else found)

    def _mov(self) -> str:
        into, source = self.operands
        several = inside(into) if into.startswith("{") else inside(source)
        if not (into + source).count("{"):
            return self.put(into, self.value(source, self.type))
        kind = f"u{8 * WIDTHS[self.type] // len(several)}"
        held = HELD[WIDTHS[self.type]]
        bits = [8 * WIDTHS[kind] * i for i in range(len(several))]
        if into.startswith("{"):
            lines = [f"const {held} x_ = {self.value(source, held)};"]
            return " ".join([*lines, *(self.put(x, f"{kind}(x_ >> {b})") for x, b in zip(several, bits, strict=True))])
        shifted = [f"{held}({self.value(x, kind)}) << {b}" for x, b in zip(several, bits, strict=True)]
        return self.put(into, " | ".join(shifted))

    # -- memory --------------------------------------------------------------------------------------------------------

    def _ld(self) -> str:
        into, width = inside(self.operands[0]), WIDTHS[self.type]
        lines = [f"char* const p_ = {self.pointer(self.operands[1], width * len(into), self.space)};"]
        return " ".join(lines + [self.put(x, f"read<{self.type}>(p_ + {i * width})") for i, x in enumerate(into)])

    _ldu = _ld

    def _st(self) -> str:
        values, width = inside(self.operands[1]), WIDTHS[self.type]
        lines = [f"char* const p_ = {self.pointer(self.operands[0], width * len(values), self.space)};"]
        lines += [f"write(p_ + {i * width}, {self.value(x, self.type)});" for i, x in enumerate(values)]
        return " ".join(lines)

    def _atom(self, into: str | None = None) -> str:
        into, place, *values = [into, *self.operands] if into else self.operands
        (action,) = ATOMICS.intersection(self.modifiers)
        arguments = ", ".join(["old_", *(self.value(x, self.type) for x in values)])
        return (
            f"char* const p_ = {self.pointer(place, WIDTHS[self.type], self.space)}; const auto old_ = "
            f"read<{self.type}>(p_); write(p_, atom_{action}({arguments})); {self.put(into or '_', 'old_')}"
        )

    def _red(self) -> str:
        return self._atom("_")

    def _cvta(self) -> str:
        into, source = self.operands
        value = self.value(source, "u64")
        if self.space == "shared":
            value = f"{'shared_of_generic' if 'to' in self.modifiers else 'generic_of_shared'}({value})"
        return self.put(into, value)

    def _isspacep(self) -> str:
        value, space = self.value(self.operands[1], "u64"), self.space
        found = {"shared": f"is_shared({value})", "global": f"!is_shared({value})"}.get(space, "false")
        return self.put(self.operands[0], found)

    def _cp(self) -> str:
        if self.modifiers[0] != "async":
            raise Unsupported(self.text)
        if "commit_group" in self.modifiers:
            return "copies.commit();"
        if "wait_group" in self.modifiers:
            return f"copies.wait({self.operands[0]});"
        if "wait_all" in self.modifiers:
            return "copies.wait_all();"
        into, source, size, *given = self.operands
        count = self.value(given[0], "u32") if given else f"{int(size, 0)}u"
        return (
            f"const u32 n_ = {count}; char* const to_ = {self.pointer(into, int(size, 0), 'shared')}; "
            f"copies.add(to_, n_ ? {self.pointer(source, int(size, 0), 'global')} : nullptr, {size}, n_);"
        )

    # -- jumps and calls -----------------------------------------------------------------------------------------------

    def _bra(self) -> str:
        return f"goto {identifier(self.operands[0])};"

    def _brx(self) -> str:
        cases = " ".join(
            f"case {i}: goto {identifier(label)};" for i, label in enumerate(self.function.targets[self.operands[1]])
        )
        return f"switch ({self.value(self.operands[0], 'u32')}) {{ {cases} }}"

    def _ret(self) -> str:
        return "return;"

    def _exit(self) -> str:
        if not self.function.is_entry:
            raise Unsupported("exit in a function")
        return "return;"

    def _trap(self) -> str:
        return 'cupyhost_fault("trap");'

    _brkpt = _trap

    def _call(self) -> str:
        operands = self.operands if self.operands[0].startswith("(") else ["()", *self.operands]
        names = [identifier(x) for group in (operands[0], *operands[2:3]) for x in split(group[1:-1])]
        called = operands[1]
        if called in ("__assertfail", "__assert_fail"):
            return 'cupyhost_fault("an assertion");'
        if called == "vprintf":
            return ""
        if not any(f.name == called for f in self.function.module.functions):
            raise Unsupported(f"a call of {called}")
        return f"function_{identifier(called)}({', '.join(names)});"

    # -- threads together ----------------------------------------------------------------------------------------------

    def _bar(self) -> str:
        if "warp" in self.modifiers:
            return f"cupyhost_wait_warp({self.value(self.operands[0], 'u32')});"
        if "red" in self.modifiers:
            value = self.value(self.operands[-1], "pred")
            counts = {
                "popc": f"u32(cupyhost_count_block({value}))", "or": f"cupyhost_count_block({value}) != 0",
                "and": f"cupyhost_count_block(!{value}) == 0",
            }  # fmt: skip
            return self.put(self.operands[0], next(counts[m] for m in self.modifiers if m in counts))
        if "cluster" in self.modifiers or self.operands[1:] or (self.operands and self.operands[0] != "0"):
            raise Unsupported(self.text)
        return "cupyhost_wait_block();"

    _barrier = _bar

    def _shfl(self) -> str:
        first, *second = self.operands[0].split("|")
        values = ", ".join(self.value(x, "u32") for x in self.operands[1:])
        lines = [
            f"bool within_; const u32 x_ = shuffle({self.modifiers[1]}_, {values}, within_);",
            self.put(first, "x_"),
        ]
        return " ".join([*lines, *(self.put(x, "within_") for x in second)])

    def _vote(self) -> str:
        arguments = f"{self.value(self.operands[1], 'pred')}, {self.value(self.operands[2], 'u32')}"
        return self.put(self.operands[0], f"vote_{self.modifiers[1]}({arguments})")

    def _match(self) -> str:
        if "any" not in self.modifiers:
            raise Unsupported(self.text)
        arguments = f"{self.value(self.operands[1], self.type)}, {self.value(self.operands[2], 'u32')}"
        return self.put(self.operands[0], f"match_any({arguments})")

    def _activemask(self) -> str:
        return self.put(self.operands[0], "lanes()")

    # -- tensor cores --------------------------------------------------------------------------------------------------

    def _mma(self) -> str:
        shape: Any = next((re.fullmatch(r"m16n8k(\d+)", m) for m in self.modifiers if m.startswith("m16n8k")), None)
        accumulated, kind = self.types[0], self.types[1]
        if shape is None or accumulated not in ("f32", "f16") or kind not in ("f16", "bf16", "tf32"):
            raise Unsupported(self.text)
        d, a, b, c = map(inside, self.operands)
        lines = [f"const u32 a_[] = {{{self._listed(a, 'u32')}}}; const u32 b_[] = {{{self._listed(b, 'u32')}}};"]
        if accumulated == "f16":
            lines += [f"const u32 h_[] = {{{self._listed(c, 'u32')}}}; f16 c_[4], d_[4]; std::memcpy(c_, h_, 8);"]
        else:
            lines += [f"const f32 c_[] = {{{self._listed(c, 'f32')}}}; f32 d_[4];"]
        lines.append(f"mma_16x8<{kind}, {shape[1]}>(d_, a_, b_, c_);")
        if accumulated == "f16":
            return " ".join([*lines, *(self.put(x, f"f16x2{{d_[{2 * i}], d_[{2 * i + 1}]}}") for i, x in enumerate(d))])
        return " ".join([*lines, *(self.put(x, f"d_[{i}]") for i, x in enumerate(d))])

    def _listed(self, operands: list[str], kind: str) -> str:
        return ", ".join(self.value(x, kind) for x in operands)

    def _ldmatrix(self) -> str:
        into = inside(self.operands[0])
        turned = "true" if "trans" in self.modifiers else "false"
        row = self.pointer(self.operands[1], 16, "shared")
        lines = [f"char* const p_ = lane() < {8 * len(into)} ? {row} : nullptr; u32 x_[4];"]
        lines += [f"ldmatrix<{len(into)}, {turned}>(x_, p_);", *(self.put(x, f"x_[{i}]") for i, x in enumerate(into))]
        return " ".join(lines)
