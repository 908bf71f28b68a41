"""Abilities are asked, not guessed: no code asks for the type of a part of a game.

Parts are the concrete radii, laws, problems, algorithms, estimators and rules of this package. What
code needs to know of one, its class says. Only the file that defines a class may ask for it.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any, get_type_hints

import pytest

import fedbandits
from fedbandits.problems import LAWS
from fedbandits.rules.radii import RADII

SRC = Path(fedbandits.__file__).parent

# Where parts are defined, and the class attribute that holds a part's name in experiment files.
PACKAGES = {
    "fedbandits.problems": ("law", "model"),
    "fedbandits.rules": ("rule", "name"),
}
NAMES = {name for names in PACKAGES.values() for name in names}
# What variables that hold a part are called. `name` is also an attribute of much else.
HOLDERS = {"algorithm", "estimator", "law", "noise", "problem", "radius", "rule", "spread"}
# The keys of tables that hold the name of a part.
KEYS = {"algorithm", "law", "model", "rule"}
# What is left, and why. Tables are not parts: from them parts are made.
ALLOWED = {
    # The one law that a table cannot give, because its lists are those of the problem.
    ("construct.py", "table.get('law')"),
}


def parts() -> dict[str, str]:
    """Return the names of all concrete parts, and the file that defines each."""
    found: dict[str, str] = {}
    for package, keys in PACKAGES.items():
        folder = import_module(package).__path__
        for module in pkgutil.walk_packages(folder, f"{package}."):
            for kind in vars(import_module(module.name)).values():
                if not inspect.isclass(kind) or kind.__module__ != module.name:
                    continue
                if any(isinstance(vars(kind).get(key), str) for key in keys):
                    found[kind.__name__] = _file_of(kind)
                    made = getattr(kind, "rule", None)
                    rule = get_type_hints(made).get("return") if inspect.isfunction(made) else None
                    for each in _with_subclasses(rule) if inspect.isclass(rule) else ():
                        found[each.__name__] = _file_of(each)
    return found


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    below: type
    for below in kind.__subclasses__():
        if below.__module__.startswith("fedbandits."):
            yield from _with_subclasses(below)


def _file_of(kind: type) -> str:
    return Path(inspect.getfile(kind)).relative_to(SRC).as_posix()


@dataclass
class Questions(ast.NodeVisitor):
    """Collects what a module asks of the types and names of parts.

    Parameters
    ----------
    known : set of str
        The names of parts whose types may not be asked for.
    """

    known: set[str]
    found: list[tuple[int, str]] = field(default_factory=list)
    # What a module calls them: by itself, by an import, or by a constant that holds several.
    meant: dict[str, set[str]] = field(default_factory=dict)
    # Constants that hold words, and variables that hold the name of a part.
    words: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)

    def visit_Module(self, node: ast.Module) -> None:
        self.meant = {name: {name} for name in self.known}
        for part in ast.walk(node):
            if isinstance(part, ast.ImportFrom):
                for alias in part.names:
                    if alias.name in self.known and alias.asname is not None:
                        self.meant[alias.asname] = {alias.name}
        for part in ast.walk(node):
            match part:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._remember(name, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._remember(name, value)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                    for target, value in zip(names, values, strict=False):
                        for name in _last_words(target):
                            self._remember(name, value)
        self.generic_visit(node)

    def _remember(self, name: str, value: ast.expr) -> None:
        # A union or a tuple of classes, or one class; no call that makes a part.
        several = ast.Name | ast.Tuple | ast.List | ast.Set | ast.BinOp
        if isinstance(value, several) and (held := self._named(value)):
            self.meant[name] = held
        if name.isupper() and _is_word(value):
            self.words.add(name)
        if _asked_name(value):
            self.asked.add(name)

    def _named(self, node: ast.AST) -> set[str]:
        """Return the parts that an expression names."""
        names = set()
        for part in ast.walk(node):
            match part:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    names |= self.meant.get(name, set())
        return names

    def _note(self, node: ast.AST, names: set[str]) -> None:
        line: int = getattr(node, "lineno", 0)
        self.found += [(line, name) for name in sorted(names)]

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                self._note(node, self._named(asked))
            case ast.Call(func=ast.Attribute(attr="register"), args=[asked, *_]):
                self._note(node, self._named(asked))
            case (
                ast.Call(func=ast.Name(id="hasattr"), args=[holder, _])
                | ast.Call(func=ast.Name(id="getattr"), args=[holder, _, _])
            ):
                self._note(node, _last_words(holder) & HOLDERS)
                self._note(node, _written(node.args[1]) & OWN_FIELDS)
            case ast.Call(func=ast.Attribute(value=asked, attr="startswith" | "endswith")):
                self._note(node, {found} if (found := _asked_name(asked)) else set())
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            self._note(node, self._class(key))
        self.generic_visit(node)

    def _class(self, node: ast.expr | None) -> set[str]:
        """Return the part whose class this is, and nothing of it."""
        return self.meant.get(node.id, set()) if isinstance(node, ast.Name) else set()

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if asked := _asked_name(node.slice):
            self._note(node, {asked})
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        if any(one.type and "AttributeError" in ast.unparse(one.type) for one in node.handlers):
            for part in ast.walk(ast.Module(body=node.body, type_ignores=[])):
                if isinstance(part, ast.Attribute):
                    self._note(node, _last_words(part.value) & HOLDERS)
        self.generic_visit(node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        for key, pattern in zip(node.keys, node.patterns, strict=True):
            worded = any(
                isinstance(p, ast.MatchValue) and _is_word(p.value) for p in ast.walk(pattern)
            )
            self._note(node, _written(key) & KEYS if worded else set())
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self._note(node, self._named(node.cls))
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        words = any(
            isinstance(part, ast.MatchValue) and _is_word(part.value)
            for case in node.cases
            for part in ast.walk(case.pattern)
        )
        if words and (asked := _asked_name(node.subject)):
            self._note(node, {asked})
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        registered = any(
            isinstance(by, ast.Attribute) and by.attr == "register" for by in node.decorator_list
        )
        if registered:
            for argument in node.args.args:
                if argument.annotation is not None:
                    self._note(node, self._named(argument.annotation))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(_is_type_of(side) for side in sides):
            self._note(node, set().union(*map(self._named, sides)))
        else:
            # A class can only be compared with a class.
            for side in sides:
                self._note(node, self._class(side))
        for place, side in enumerate(sides):
            asked = _asked_name(side) or _asked_table(side) or _asked_class_name(side)
            if isinstance(side, ast.Name) and side.id in self.asked:
                asked = side.id
            others = sides[:place] + sides[place + 1 :]
            if asked and any(self._is_name(other) for other in others):
                self._note(node, {asked})
            if _last_words(side) & KEYS and any(
                _last_words(other) & self.words for other in others
            ):
                self._note(node, {ast.unparse(node)})
        self.generic_visit(node)

    def _is_name(self, node: ast.expr) -> bool:
        """Return whether it is a word, a constant of some, or the name that a class has."""
        return _is_word(node) or _names_a_class(node) or bool(_last_words(node) & self.words)


def _written(node: ast.expr) -> set[str]:
    """Return the string that is written here."""
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def _asked_table(node: ast.expr) -> str | None:
    """Return the expression if it is the name of a part in a table: ``described()["law"]``."""
    match node:
        case (
            ast.Subscript(slice=ast.Constant(value=str(key)))
            | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_])
        ) if key in KEYS:
            return ast.unparse(node)
    return None


def _asked_class_name(node: ast.expr) -> str | None:
    """Return the expression if it is the name of a value's class."""
    match node:
        case ast.Attribute(value=owner, attr="__name__" | "__qualname__") if _is_type_of(owner):
            return ast.unparse(node)
    return None


def _last_words(node: ast.expr) -> set[str]:
    """Return what an expression is called: ``rule.radius`` is a radius."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
    return set()


def _is_type_of(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[_]) | ast.Attribute(attr="__class__"):
            return True
    return False


def _is_word(node: ast.expr) -> bool:
    """Return whether a string is written here, or several."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_word, node.elts))
    if isinstance(node, ast.Dict):
        return any(key is not None and _is_word(key) for key in node.keys)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _names_a_class(node: ast.expr) -> bool:
    """Return whether it is the name that a class has: ``Gaussian.law``."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return name in NAMES and owner[:1].isupper()
    return False


def _asked_name(node: ast.expr) -> str | None:
    """Return the expression if it is the name of a part: ``problem.noise.law``, ``radius.rule``."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner[:1].isupper():
            return None
        case ast.Attribute(value=owner, attr="name"):
            return ast.unparse(node) if _last_words(owner) & HOLDERS else None
        case ast.Attribute(attr=name) if name in NAMES:
            return ast.unparse(node)
    return None


def asked_in(source: str, known: set[str]) -> list[tuple[int, str]]:
    """Return lines of a source that ask for the type or the name of a part, and of which."""
    questions = Questions(known)
    questions.visit(ast.parse(source))
    return questions.found


PARTS = parts()


def own_fields() -> set[str]:
    """Return the fields that only parts have: those of laws and radii, and of no algorithm."""
    made: list[Any] = [*LAWS.values(), *RADII.values()]
    return {one.name for kind in made for one in fields(kind)} - {"delta"}


OWN_FIELDS = own_fields()


def questions_in_src() -> Iterator[tuple[str, int, str]]:
    for path in sorted(SRC.rglob("*.py")):
        file = path.relative_to(SRC).as_posix()
        known = {name for name, home in PARTS.items() if home != file}
        for line, name in asked_in(path.read_text(encoding="utf-8"), known):
            yield file, line, name


def test_nothing_asks_for_the_type_of_a_part() -> None:
    found = [
        f"{file}:{line}: {name}"
        for file, line, name in questions_in_src()
        if (file, name) not in ALLOWED
    ]
    assert not found, "ask for an ability instead:\n" + "\n".join(found)


def test_what_is_allowed_is_still_there() -> None:
    assert {(file, name) for file, _, name in questions_in_src()} == ALLOWED


def test_all_parts_are_known() -> None:
    laws = {"Gaussian", "Uniform", "Bernoulli", "Empirical", "Beta"}
    problems = {"Exact", "Approximate", "CognitiveRadio"}
    rules = {"PaperRadius", "PairedTRadius", "Fed1Ucb", "FedIndex", "Ucb1", "PhasedRule"}
    assert laws | problems | rules <= set(PARTS)
    assert {"NoiseLaw", "Problem", "Radius", "Algorithm", "Goal"}.isdisjoint(PARTS)
    assert PARTS["Gaussian"] == "problems/laws.py"


PLANTED = {
    "isinstance": "isinstance(law, Gaussian)",
    "isinstance of several": "isinstance(law, (int, Gaussian))",
    "isinstance of a union": "isinstance(law, int | laws.Gaussian)",
    "isinstance of a constant": "_NORMAL = (Gaussian,)\nisinstance(law, _NORMAL)",
    "isinstance by another name": "from laws import Gaussian as G\nisinstance(law, G)",
    "issubclass": "issubclass(type(law), Gaussian)",
    "class pattern": """
        match law:
            case Gaussian(sigma=sigma) if sigma > 0:
                pass
        """,
    "class pattern inside another": """
        match problem:
            case Exact(noise=Gaussian() as noise):
                pass
        """,
    "type is": "type(law) is Gaussian",
    "type is not": "type(law) is not Gaussian",
    "type equals": "type(law) == Gaussian",
    "type in": "type(law) in (Gaussian, int)",
    "class is": "law.__class__ is Gaussian",
    "dispatch by annotation": """
        @clipped.register
        def _(law: Gaussian, low: float) -> float: ...
        """,
    "dispatch by argument": """
        @clipped.register(Gaussian)
        def _(law, low): ...
        """,
    "hasattr": 'hasattr(rule.radius, "range")',
    "getattr with a default": 'getattr(law, "sigma", None)',
    "name of a law": 'problem.noise.law == "gaussian"',
    "name of a law, the other way round": '"gaussian" != law.law',
    "name of a model": 'problem.model in ("exact", "approximate")',
    "name of a radius": 'rule.radius.rule == "paper"',
    "name of an algorithm": 'variant.algorithm.name == "fed1-ucb"',
    "name as that of a class": "law.law == Gaussian.law",
    "name in a match": """
        match problem.model:
            case "exact":
                pass
        """,
    "table by class": "{Gaussian: 1}[type(law)]",
    "table by name": "_T = {'gaussian': 1}\n_T[law.law]",
    "name in a constant": "_N = ('gaussian',)\nlaw.law in _N",
    "name by a variable": "name = law.law\nif name == 'gaussian': pass",
    "class in a constant": "_C = {Gaussian}\ntype(law) in _C",
    "class by a variable": "kind = type(law)\nkind is Gaussian",
    "class in all bases": "Gaussian in type(law).__mro__",
    "name of a class": "type(law).__name__ == 'Gaussian'",
    "an attribute that may be missing": """
        try:
            law.sigma
        except AttributeError:
            pass
        """,
    "an attribute of something else": "getattr(self.game, 'sigma', None)",
    "whether something else has it": "hasattr(self.one, 'sigma')",
    "name in a table": "table['law'] == 'gaussian'",
    "name in a table that may be missing": 'table.get("law") == Gaussian.law',
    "name in its own table": "law.described()['law'] == 'gaussian'",
    "name in a pattern of a table": """
        match table:
            case {"law": "gaussian"}:
                pass
        """,
    "how a name begins": "law.law.startswith('g')",
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_questions_are_found(name: str) -> None:
    assert asked_in(dedent(PLANTED[name]), {"Gaussian"})


@pytest.mark.parametrize(
    "source",
    [
        "law = Gaussian(0.5)",
        "isinstance(value, str)",
        "isinstance(law, NoiseLaw)",
        "if law.normal_deviation is None: pass",
        'getattr(value, name)\ngetattr(module, "pull", None)',
        'field.name == "sigma"',
        "type(law).__name__",
        'type(error) is ValueError or kind == "exact"',
        'table.get("law") is None',
        "{Empirical.law: 1}",
        "try:\n    law.draw()\nexcept ValueError:\n    pass",
        'name = path.stem\nname == "exact"',
        "RADII.register",
        'match word:\n    case "exact": pass',
    ],
)
def test_other_questions_are_not(source: str) -> None:
    assert not asked_in(source, {"Gaussian", "Empirical"})


def test_the_defining_file_may_ask() -> None:
    homes = {name for name, home in PARTS.items() if home == "problems/laws.py"}
    assert homes == {"Gaussian", "Uniform", "Bernoulli", "Empirical", "Beta"}
