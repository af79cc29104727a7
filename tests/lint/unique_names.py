"""Names that a source file keeps to itself (in an unnamed namespace, or static) are unique within their room, so that
any of the room's files compile as one. Called with the folder of the project; prints every name defined twice."""

import collections
import os
import re
import sys

TOKEN = re.compile(r"[A-Za-z_]\w*|\d(?:[\w.]|'\w|(?<=[eEpP])[+-])*|::|\"|\S")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# What stands in a declaration without being its name.
NO_NAMES = set("""alignas auto bool char class concept const consteval constexpr constinit decltype default delete double
enum extern final float inline int long mutable noexcept operator override private protected public requires return
short signed sizeof static struct template this thread_local typedef typename union unsigned using virtual void
volatile wchar_t char8_t char16_t char32_t explicit friend namespace""".split())
# Words with an argument in parentheses that is no parameter list.
WITH_ARGUMENT = {"alignas", "decltype", "noexcept", "__attribute__", "explicit"}
CLOSING = {"(": ")", "[": "]", "{": "}"}

HIDDEN = re.compile(
    r"""(?P<line>//(?:\\\n|[^\n])*)|(?P<block>/\*.*?\*/)"""
    r"""|(?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")"""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*")|(?P<number>\b\d(?:[\w.]|'\w)*)|(?P<char>'(?:\\.|[^'\\\n])+')""",
    re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)


def without_text(source):
    """The source without comments and directives, and with empty texts; every line stays where it is."""

    def shown(match):
        lines = "\n" * match[0].count("\n")
        if match["number"]:
            return match[0]
        return ('""' if match["raw"] or match["text"] else "0" if match["char"] else " ") + lines

    source = HIDDEN.sub(shown, source)
    return DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), source)


class Parser:
    """Finds the names that a file declares for itself: a list of (name, line)."""

    def __init__(self, source):
        self.tokens = []
        for number, line in enumerate(without_text(source).split("\n"), 1):
            self.tokens += [(token, number) for token in TOKEN.findall(line)]
        self.names = []
        self.at = 0
        while self.at < len(self.tokens):
            self.scope(own=False, path="")
            self.at += 1  # a brace too many

    def token(self, ahead=0):
        at = self.at + ahead
        return self.tokens[at][0] if 0 <= at < len(self.tokens) else ""

    def is_name(self, at):
        token = self.tokens[at][0]
        return IDENTIFIER.fullmatch(token) is not None and token not in NO_NAMES

    def record(self, at, path):
        self.names.append((path + self.tokens[at][0], self.tokens[at][1]))

    def skip_group(self):
        """From an opening bracket to behind the one that closes it."""
        waiting = []
        while self.at < len(self.tokens):
            token = self.token()
            self.at += 1
            if token in CLOSING:
                waiting.append(CLOSING[token])
            elif waiting and token == waiting[-1]:
                waiting.pop()
            if not waiting:
                return

    def skip_angles(self):
        """From `<` to behind the `>` that closes it."""
        depth = 0
        while self.at < len(self.tokens):
            token = self.token()
            if token in CLOSING:
                self.skip_group()
                continue
            if token in ";}":
                return  # a comparison after all
            self.at += 1
            depth += (token == "<") - (token == ">" and self.tokens[self.at - 2][0] != "-")
            if depth == 0:
                return

    def skip_to(self, ends):
        """To the next of these outside of brackets."""
        while self.at < len(self.tokens) and self.token() not in ends and self.token() != "}":
            if self.token() in CLOSING:
                self.skip_group()
            else:
                self.at += 1

    def scope(self, own, path):
        """The declarations of a namespace, up to its closing brace. `own`: they are the file's own."""
        while self.at < len(self.tokens) and self.token() != "}":
            self.declaration(own, path)

    def declaration(self, own, path):
        while self.token() in ("template", "[", "inline", "requires"):
            if not self.prefix():
                return
        token = self.token()
        if token == "namespace":
            self.namespace(own, path)
        elif token == "extern" and self.token(1) == '"' and self.token(3) == "{":
            self.at += 4
            self.scope(own, path)
            self.at += 1
        elif token in ("using", "typedef"):
            self.alias(own, path)
        elif IDENTIFIER.fullmatch(token) and token not in NO_NAMES and self.token(1) == "(":
            self.at += 1  # a macro: TEST_CASE("...") {...}
            self.skip_group()
            if self.token() == "{":
                self.skip_group()
        elif token in ";{}(":
            self.skip_group()
        else:
            self.entity(own, path)

    def prefix(self):
        """What stands before a declaration: template <...>, attributes. False at the end of an explicit instantiation."""
        token = self.token()
        if token == "[":
            self.skip_group()
        elif token == "template" and self.token(1) != "<":
            self.skip_to(";")
            return False
        elif token == "template":
            self.at += 1
            self.skip_angles()
        elif token == "requires":
            self.at += 1
            while self.token() in ("(", "!", "{") or self.token(1) in ("<", "::", "&", "|") or self.token() in "&|>":
                if self.token() in CLOSING:
                    self.skip_group()
                elif self.token(1) == "<":
                    self.at += 1
                    self.skip_angles()
                else:
                    self.at += 1
        else:
            self.at += 1
        return True

    def namespace(self, own, path):
        self.at += 1
        first = self.at
        while self.token() not in ("{", "=", ";", ""):
            self.at += 1
        name = "".join(token for token, _ in self.tokens[first:self.at])
        if self.token() != "{":
            self.skip_to(";")  # an alias, which may be said again
            return
        self.at += 1
        self.scope(own or not name, path + name + "::" if own and name else path)
        self.at += 1

    def alias(self, own, path):
        first = self.at
        self.skip_to(";")
        tokens = [token for token, _ in self.tokens[first:self.at]]
        if own and tokens[0] == "typedef" and self.is_name(self.at - 1):
            self.record(self.at - 1, path)
        elif own and tokens[0] == "using" and "=" in tokens:
            self.record(first + 1, path)

    def entity(self, own, path):
        """A type, function or variables."""
        first = self.at
        while self.at < len(self.tokens):
            token = self.token()
            if token in ("struct", "class", "union", "enum"):
                if self.type_of_entity(own, path):
                    return
            elif token == "static":
                own = True
                self.at += 1
            elif token == "operator":
                self.skip_operator()
                return
            elif token in WITH_ARGUMENT and self.token(1) == "(":
                self.at += 1
                self.skip_group()
            elif token == "[" and self.token(1) == "[":
                self.skip_group()
            elif token == "<":
                self.skip_angles()
            elif token == "requires":
                self.prefix()
            elif token in "=({;,[:}":
                break
            else:
                self.at += 1
        self.declarators(own, path, first)

    def type_of_entity(self, own, path):
        """At the word struct, class, union or enum. True where nothing but the type is declared."""
        is_enum = self.token() == "enum"
        self.at += 1
        is_scoped = is_enum and self.token() in ("class", "struct")
        self.at += is_scoped
        while self.token() in WITH_ARGUMENT or self.token() == "[":
            self.at += self.token() != "["
            self.skip_group()
        name = None
        if self.token() not in "{:":
            name = self.at
            self.at += 1
        if self.token() in ("<", "::"):  # a specialization, or the definition of a class declared elsewhere
            name = None
        if self.token() not in ("<", "::", "{", ":", ";", "final"):
            return False  # `struct X x;`: an entity of that type
        self.skip_to("{;")
        if own and name is not None:
            self.record(name, path)
        if self.token() != "{":
            self.at += 1
            return True
        body = self.at
        self.skip_group()
        if own and is_enum and not is_scoped:
            self.enumerators(body, self.at - 1, path)
        if self.token() == ";":
            self.at += 1
            return True
        return False

    def enumerators(self, begin, end, path):
        depth = 0
        for at in range(begin + 1, end):
            token = self.tokens[at][0]
            depth += (token in CLOSING) - (token in CLOSING.values())
            if depth == 0 and self.tokens[at - 1][0] in "{," and self.is_name(at):
                self.record(at, path)

    def skip_operator(self):
        """Over a function whose name is an operator."""
        self.at += 1
        if self.token() == "(":
            self.at += 2
        self.skip_to("(")
        self.skip_group()
        self.skip_body()

    def skip_body(self):
        """From behind a parameter list to the end of the function."""
        self.skip_to("{;")
        self.skip_group()

    def declarators(self, own, path, first):
        """At what follows the first declared name; then over the rest of the declaration."""
        while self.at < len(self.tokens):
            token = self.token()
            if token == "(" and self.token(1) in ("*", "&"):
                name = self.at + 1
                while not self.is_name(name) and self.tokens[name][0] != ")":
                    name += 1
            else:
                name = self.at - 1
            is_declared = name > first or token != "("
            if own and is_declared and self.is_name(name) and self.tokens[name - 1][0] != "::":
                self.record(name, path)
            if token == "(":
                self.skip_group()
                if self.token() != ",":
                    self.skip_body()
                    return
            if not self.next_declarator():
                return

    def next_declarator(self):
        """Over an initializer, to what follows the next name of the declaration. False at its end."""
        angles = 0
        while self.at < len(self.tokens) and self.token() not in ";}":
            token = self.token()
            if token in CLOSING:
                self.skip_group()
                continue
            self.at += 1
            if token == "<" and IDENTIFIER.fullmatch(self.tokens[self.at - 2][0]):
                angles += 1
            elif token == ">" and angles > 0:
                angles -= 1
            elif token == "," and angles == 0:
                while self.token() in ("*", "&", "const"):
                    self.at += 1
                self.at += 1
                return True
        self.at += self.token() == ";"
        return False


def room_of(path):
    """The folder whose files are compiled together."""
    parts = path.split("/")
    return "/".join(parts[:3] if parts[:2] == ["tests", "backends"] else parts[:2])


def sources(root):
    for top in ("engine", "backends", "tests"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for file in sorted(files):
                path = os.path.relpath(os.path.join(folder, file), root).replace(os.sep, "/")
                if file.endswith(".cpp") and room_of(path) != path:
                    yield path


def main():
    root = sys.argv[1]
    found = collections.defaultdict(dict)  # room and name -> file -> line
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for name, line in Parser(file.read()).names:
                found[room_of(path), name].setdefault(path, line)
    problems = []
    for (_, name), files in found.items():
        (path, line), *others = files.items()
        for other, other_line in others:
            problems.append((other, other_line, f"{name} is also defined in {path}:{line}"))
    for path, line, problem in sorted(problems):
        print(f"{path}:{line}: {problem}: give it a name of its own, or one definition in a header")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
