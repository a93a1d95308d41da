# SPDX-License-Identifier: MIT
"""A page in the Markdown of docs/, as blocks, and these in the language of man(7).

A table becomes one of tbl(1), whose last column is filled. Where the others leave that no room, and
where it lists options or fields, each row becomes a tagged paragraph."""
import re

TABLE_COLUMNS_MAX = 36      # of a terminal's 80, for all columns but the last

TABLE_LINE = re.compile(r"^\|(.*)\|\s*$")
ITEM = re.compile(r"^(-|\d+\.) +(.*)$")


def cells(line):
    """The cells of a row; a bar within one is written \\|."""
    inner = TABLE_LINE.match(line).group(1)
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def blocks(text):
    """Yields (kind, content): heading (level, words), code [lines], table [rows],
    item (mark, words), paragraph words. Comments are left out."""
    lines = re.sub(r"<!--.*?-->", "", text, flags=re.S).split("\n")
    at = 0
    while at < len(lines):
        line, start = lines[at], at
        at += 1
        if not line.strip():
            continue
        if line.startswith("#"):
            yield "heading", (len(line) - len(line.lstrip("#")), line.lstrip("# "))
        elif line.startswith("    "):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield "code", [each[4:] for each in "\n".join(lines[start:at]).rstrip().split("\n")]
        elif TABLE_LINE.match(line):
            while at < len(lines) and TABLE_LINE.match(lines[at]):
                at += 1
            rows = [cells(each) for each in lines[start:at]]
            yield "table", rows[:1] + rows[2:]
        else:
            while at < len(lines) and lines[at].strip() and not ITEM.match(lines[at]) and \
                    not TABLE_LINE.match(lines[at]):
                at += 1
            words = " ".join(each.strip() for each in lines[start:at])
            found = ITEM.match(words)
            yield ("item", found.groups()) if found else ("paragraph", words)


def plain(text):
    """Text for roff: no byte of it is an order."""
    text = text.replace("\\", "\\e").replace("`", "\\(ga").replace("^", "\\(ha")
    return re.sub(r"^([.'])", r"\\&\1", text.replace("~", "\\(ti"))


def words(text):
    """The marks within a paragraph: code and strong words bold, other words with stress italic. A
    link is its text: what it leads to is another page of the project."""
    text = re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)", r"\1", text)
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*(?!\w))", text)
    made = []
    for part in parts:
        if part.startswith("`"):
            made.append("\\fB" + plain(part[1:-1]).replace("-", "\\-") + "\\fR")
        elif part.startswith("**"):
            made.append("\\fB" + plain(part[2:-2]) + "\\fR")
        elif part.startswith("*") and len(part) > 2:
            made.append("\\fI" + plain(part[1:-1]) + "\\fR")
        else:
            made.append(plain(part))
    return "".join(made)


def tag_of(rows):
    """The column that names a row of a list; -1: the rows make a table."""
    named = [rows[0].index(head) for head in ("field", "name") if head in rows[0][:-1]] or [0]
    lists_options = rows[0][-1] == "meaning" and all(row[0].startswith("`") for row in rows[1:])
    widths = [max(len(row[at]) for row in rows) + 3 for at in range(len(rows[0]) - 1)]
    is_list = lists_options or "field" in rows[0] or sum(widths) > TABLE_COLUMNS_MAX
    return named[0] if is_list else -1


def tagged(rows, tag):
    """Each row as a paragraph: its meaning, which is the last column, and what the others say."""
    last = len(rows[0]) - (rows[0][-1] in ("", "meaning"))
    for row in rows[1:]:
        others = [f"{rows[0][at]} {row[at]}" for at in range(last) if row[at] and at != tag]
        more = "; ".join(others)
        meaning = "".join(row[last:])
        yield ".TP"
        yield words(row[tag] if row[tag].startswith("`") else f"**{row[tag]}**") or "\\&"
        yield words(f"{meaning} ({more})" if more and meaning else meaning or more) or "\\&"


def table(rows):
    columns = len(rows[0])
    yield ".PP"
    yield ".TS"
    yield " ".join(["lb"] * (columns - 1) + ["lbx"])
    yield " ".join(["l"] * (columns - 1) + ["lx"]) + "."
    for row in rows:
        first = [words(cell) for cell in row[:-1]]
        yield "\t".join(first + ["T{"])
        yield words(row[-1])
        yield "T}"
    yield ".TE"


def code(lines):
    yield ".PP"
    yield ".RS 4"
    yield ".EX"
    for line in lines:
        yield plain(line).replace("-", "\\-") or "\\&"
    yield ".EE"
    yield ".RE"


def roff(text):
    """Yields the lines of the page. A heading begins a paragraph by itself."""
    before = ""
    for line in lines_of(text):
        if line != ".PP" or not before.startswith((".SH", ".SS")):
            yield line
        before = line


def lines_of(text):
    for kind, content in blocks(text):
        if kind == "heading":
            level, title = content
            yield f".SH {plain(title.upper())}" if level <= 2 else f".SS {plain(title)}"
        elif kind == "code":
            yield from code(content)
        elif kind == "table":
            tag = tag_of(content)
            yield from table(content) if tag < 0 else tagged(content, tag)
        elif kind == "item":
            mark, text_of_it = content
            yield ".IP \\(bu 2" if mark == "-" else f".IP {mark} 4"
            yield words(text_of_it)
        else:
            yield ".PP"
            yield words(content)
