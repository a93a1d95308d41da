#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: the workloads of the Helium paper (tables 2 and 6, figure 6) as flow files and rows.

  tools/lab/flow/flows.py [--small] [--roles-first] [--rows N] [--seed S] DIRECTORY

Writes NAME.flow and NAME.tsv: seven variants of the five primitives, and trading with a second day
(trading.2.tsv). The graphs are the paper's. It gives no prompts and no lengths, so these are ours:
what operators share comes first in a prompt, the operator's role after it (--roles-first: the
other way round); a question of MMLU has about 100 tokens, a context of TAT-QA 1,000 and its six
questions together 150, ten reviews 800; answers have 60 to 250. A row is one query; its column out%
scales the answers of all its operators.
"""
import argparse
import pathlib
import random

ROLES = "algebra anatomy astronomy business chemistry computing economics ethics geography " \
        "history law medicine physics psychology".split()


def head(shared, role, roles_first):
    """The beginning of a prompt."""
    return f"{role} {shared}" if roles_first else f"{shared} {role}"


def map_reduce(roles_first, experts, context):
    begin = head(f"s:shared:60 {'context ' if context else ''}\"\\nQuestion: \" question",
                 '"You are an expert of " expert s:role:120', roles_first)
    return f"""agentix-flow 1
each expert = {' '.join(ROLES[:experts])}
{'input context=1000' if context else ''}
input question={150 if context else 100}
llm expert_says[expert] max=512 est=150 = {begin}
llm answer max=256 est=120 = s:summarizer:120 "\\nQuestion: " question
    {{"\\nAn expert: " expert_says[*]}}
output answer
"""


def debate(roles_first, context):
    context_piece = '"\\nContext: " context ' if context else ""
    begin = head(f's:debater:120 {context_piece}"\\nQuestion: " question',
                 '"You are " agent s:role:60', roles_first)
    return f"""agentix-flow 1
each round = 1..2
each agent = anna bert carl
{'input context=1000' if context else ''}
input question={150 if context else 100}
llm say[round,agent] max=512 est=180 = {begin}
    {{"\\nYou said: " say[round-1,agent]}} {{"\\nAnother: " say[round-1,!agent]}} "\\nAnswer:"
llm answer max=128 est=60 = s:judge:120 "\\nQuestion: " question {{"\\nHeard: " say[2,*]}}
output answer
"""


def reflect(roles_first):
    shared = 's:shared:100 context "\\nQuestion: " question'
    drafted = shared + ' "\\nDraft: " draft'
    return f"""agentix-flow 1
each critic = facts sums
input context=1000
input question=150
llm draft max=512 est=150 = {head(shared, "s:expert:60", roles_first)}
llm critique[critic] max=512 est=120 =
    {head(drafted, '"You check " critic s:critic:80', roles_first)}
llm answer max=512 est=150 = {head(drafted, "s:expert:60", roles_first)}
    {{"\\nA critic: " critique[*]}}
output answer
"""


def iterative(_roles_first, chunks):
    return f"""agentix-flow 1
each chunk = 1..{chunks}
input reviews[chunk]=800
llm summary[chunk] max=512 est=200 = s:summarizer:180 {{"\\nSo far: " summary[chunk-1]}}
    "\\nReviews: " reviews[chunk] "\\nSummary:"
llm report max=512 est=250 = s:writer:150 summary[{chunks}]
output report
"""


def parallel(roles_first, experts, chunks):
    begin = head('s:shared:100 "\\nReviews: " reviews[chunk]', '"You look for " expert s:role:60',
                 roles_first)
    return f"""agentix-flow 1
each expert = {' '.join('price quality service style size parcel trust'.split()[:experts])}
each chunk = 1..{chunks}
input reviews[chunk]=800
llm insight[expert,chunk] max=256 est=100 = {begin}
llm report max=512 est=250 = s:writer:150 {{"\\nInsight: " insight[*,*]}}
output report
"""


def trading(roles_first, branches=8, rounds=2):
    """Analysts (parallel chains), researchers (debate), traders and risk (debates, reduced)."""
    traders = "value news trend chart macro swing quant index bond gold oil tech".split()
    study = '"\\nYou study " analyst s:task:60'
    note = head('s:analyst:220 "\\nDocument: " document[analyst,part]', study, roles_first)
    views = 's:analyst:220 "\\nStock: " stock {"\\nNote: " note[analyst,*]}'
    trade = head('s:desk:220 "\\nPlan: " plan', '"\\nYou trade by " trader s:trader:60',
                 roles_first)
    check = head('s:desk:220 "\\nPlan: " plan "\\nTrade: " trade[trader]',
                 '"\\nYou are " risk s:risk:60', roles_first)
    return f"""agentix-flow 1
each analyst = market social news accounts
each part = 1..2
each round = 1..{rounds}
each side = bull bear
each trader = {' '.join(traders[:branches])}
each risk = bold calm fair
input stock=8
input document[analyst,part]=600
llm note[analyst,part] max=512 est=150 = {note}
llm view[analyst] max=512 est=180 = {head(views, study, roles_first)}
text views = "\\nStock: " stock {{"\\nView: " view[*]}}
llm claim[round,side] max=512 est=150 =
    {head("s:research:220 views", '"You argue as a " side', roles_first)}
    {{"\\nYou said: " claim[round-1,side]}} {{"\\nThe other: " claim[round-1,!side]}}
llm plan max=512 est=200 = s:research:220 views {{"\\nClaim: " claim[{rounds},*]}} s:manager:60
llm trade[trader] max=256 est=120 = {trade}
llm check[trader,round,risk] max=256 est=100 = {check}
    {{"\\nYou said: " check[trader,round-1,risk]}} {{"\\nAnother: " check[trader,round-1,!risk]}}
llm decision max=256 est=150 = s:desk:220 "\\nPlan: " plan
    {{"\\nTrade: " trade[*]}} {{"\\nRisk: " check[*,{rounds},*]}}
output decision
"""


def flows(small, roles_first=False):
    """name -> (text, columns of a row: how to draw them)"""
    experts, chunks = (3, 2) if small else (7, 6)
    made = {"mapred-mmlu": (map_reduce(roles_first, 3 if small else 14, False), mmlu),
            "mapred-tatqa": (map_reduce(roles_first, experts, True), tatqa),
            "debate-mmlu": (debate(roles_first, False), mmlu),
            "debate-tatqa": (debate(roles_first, True), tatqa),
            "reflect-tatqa": (reflect(roles_first), tatqa),
            "iterative-amazon": (iterative(roles_first, chunks), amazon(chunks)),
            "parallel-amazon": (parallel(roles_first, experts, chunks), amazon(chunks))}
    if not small:
        made["trading"] = (trading(roles_first), stocks)
    return {name: ("\n".join(filter(None, text.split("\n"))) + "\n", columns)
            for name, (text, columns) in made.items()}


def about(draw, tokens):
    return max(1, round(tokens * draw.lognormvariate(0, 0.35)))


def mmlu(row, draw, _day):
    return {"question": f"mmlu{row}:{about(draw, 100)}"}


def tatqa(row, draw, _day):
    return {"context": f"report{row}:{about(draw, 1000)}",
            "question": f"questions{row}:{about(draw, 150)}"}


def amazon(chunks):
    return lambda row, draw, _day: {f"reviews[{c}]": f"item{row}.{c}:{about(draw, 800)}"
                                    for c in range(1, chunks + 1)}


def stocks(row, draw, day):
    """On the second day the accounts and what is social are as they were (figure 11)."""
    cells = {"stock": f"stock{row}:{8}"}
    for analyst in "market social news accounts".split():
        for part in (1, 2):
            stays = analyst in ("accounts", "social")
            kept = about(random.Random(f"{analyst} {row} {part}"), 600)
            length = about(draw, 600)
            cells[f"document[{analyst},{part}]"] = \
                f"{analyst}{row}.{part}:{kept}" if stays else \
                f"{analyst}{row}.{part}.day{day}:{length}"
    return cells


def rows_text(columns, count, seed, day):
    draw = random.Random(f"{seed} {day}")
    rows = []
    for row in range(count):
        cells = columns(row, draw, day)
        cells["out%"] = str(max(10, min(300, round(100 * draw.lognormvariate(-0.05, 0.3)))))
        rows.append(cells)
    names = list(rows[0])
    return "\n".join(["\t".join(names)] +
                     ["\t".join(row[n] for n in names) for row in rows]) + "\n"


def write(directory, made, rows, seed):
    directory.mkdir(parents=True, exist_ok=True)
    for name, (text, columns) in made.items():
        (directory / f"{name}.flow").write_text(text, encoding="utf-8")
        count = max(1, rows // 3) if name == "trading" else rows
        for day in (1, 2) if name == "trading" else (1,):
            suffix = ".2.tsv" if day == 2 else ".tsv"
            (directory / (name + suffix)).write_text(rows_text(columns, count, seed, day),
                                                     encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Flow files and rows after the Helium paper.")
    parser.add_argument("--small", action="store_true", help="those of table 6")
    parser.add_argument("--roles-first", action="store_true")
    parser.add_argument("--rows", type=int, default=48, help="of each; trading: a third of it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("directory", type=pathlib.Path)
    words = parser.parse_args()
    write(words.directory, flows(words.small, words.roles_first), words.rows, words.seed)


if __name__ == "__main__":
    main()
