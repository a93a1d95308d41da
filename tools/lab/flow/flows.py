#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: the workloads of the Helium paper (tables 2 and 6, figure 6) as flow files and rows.

  tools/lab/flow/flows.py [--small] [--rows N] [--seed S] DIRECTORY

Writes NAME.flow and NAME.tsv: seven variants of the five primitives, and trading with a second day
(trading.2.tsv). The graphs are the paper's; it gives no prompts and no lengths, so these are ours:
prompts of roles of 120 tokens and more, questions of MMLU about 100 tokens, contexts of TAT-QA about
700 with six questions each, chunks of ten reviews about 800, answers of 60 to 250 tokens. A row is
one query; its column out% scales the answers of all its operators.
"""
import argparse
import pathlib
import random

ROLES = "algebra anatomy astronomy business chemistry computing economics ethics geography history " \
        "law medicine physics psychology".split()
AGENTS = ["anna", "bert", "carl"]


def map_reduce(experts, context):
    head = "s:shared:60 context " if context else ""
    return f"""agentix-flow 1
each expert = {' '.join(ROLES[:experts])}
{'input context=700' if context else ''}
input question={25 if context else 100}
llm expert_says[expert] max=512 est=150 = {head}"You are an expert of " expert s:role:120
    "\\nQuestion: " question
llm answer max=256 est=120 = s:summarizer:120 "\\nQuestion: " question {{"\\nAn expert: " expert_says[*]}}
output answer
"""


def debate(context, agents=3):
    extra = "\n    \"\\nContext: \" context" if context else ""
    return f"""agentix-flow 1
each round = 1..2
each agent = {' '.join(AGENTS[:agents])}
{'input context=700' if context else ''}
input question={25 if context else 100}
llm say[round,agent] max=512 est=180 = "You are " agent s:debater:120 {extra}
    "\\nQuestion: " question {{"\\nYou said: " say[round-1,agent]}}
    {{"\\nAnother: " say[round-1,!agent]}} "\\nAnswer:"
llm answer max=128 est=60 = s:judge:120 "\\nQuestion: " question {{"\\nHeard: " say[2,*]}}
output answer
"""


def reflect():
    return """agentix-flow 1
each critic = facts sums
input context=700
input question=25
llm draft max=512 est=150 = s:expert:160 context "\\nQuestion: " question
llm critique[critic] max=512 est=120 = "You check " critic s:critic:140 context
    "\\nQuestion: " question "\\nDraft: " draft
llm answer max=512 est=150 = s:expert:160 context "\\nQuestion: " question "\\nDraft: " draft
    {"\\nA critic: " critique[*]}
output answer
"""


def iterative(chunks):
    return f"""agentix-flow 1
each chunk = 1..{chunks}
input reviews[chunk]=800
llm summary[chunk] max=512 est=200 = s:summarizer:180 {{"\\nSo far: " summary[chunk-1]}}
    "\\nReviews: " reviews[chunk] "\\nSummary:"
llm report max=512 est=250 = s:writer:150 summary[{chunks}]
output report
"""


def parallel(experts, chunks):
    return f"""agentix-flow 1
each expert = {' '.join(['price', 'quality', 'service', 'style', 'size', 'parcel', 'trust'][:experts])}
each chunk = 1..{chunks}
input reviews[chunk]=800
llm insight[expert,chunk] max=256 est=100 = "You look for " expert s:role:140
    "\\nReviews: " reviews[chunk]
llm report max=512 est=250 = s:writer:150 {{"\\nInsight: " insight[*,*]}}
output report
"""


def trading(branches=8, rounds=2):
    """Analysts (parallel chains), researchers (debate), traders and risk (map-reduce of debates)."""
    traders = "value news trend chart macro swing quant index bond gold oil tech".split()
    return f"""agentix-flow 1
each analyst = market social news accounts
each part = 1..2
each round = 1..{rounds}
each side = bull bear
each trader = {' '.join(traders[:branches])}
each risk = bold calm fair
input stock=8
input document[analyst,part]=600
llm note[analyst,part] max=512 est=150 = "You study " analyst s:analyst:220
    "\\nDocument: " document[analyst,part]
llm view[analyst] max=512 est=180 = "You study " analyst s:analyst:220
    "\\nStock: " stock {{"\\nNote: " note[analyst,*]}}
text views = "\\nStock: " stock {{"\\nView: " view[*]}}
llm claim[round,side] max=512 est=150 = "You argue as a " side s:researcher:220 views
    {{"\\nYou said: " claim[round-1,side]}} {{"\\nThe other: " claim[round-1,!side]}}
llm plan max=512 est=200 = s:manager:240 views {{"\\nClaim: " claim[{rounds},*]}}
llm trade[trader] max=256 est=120 = s:trade_rules:220 "You trade by " trader s:trader:60
    "\\nPlan: " plan
llm check[trader,round,risk] max=256 est=100 = "Risk: you are " risk s:risk:220
    "\\nPlan: " plan "\\nTrade: " trade[trader]
    {{"\\nYou said: " check[trader,round-1,risk]}} {{"\\nAnother: " check[trader,round-1,!risk]}}
llm decision max=256 est=150 = s:fund:240 "\\nStock: " stock
    {{"\\nTrade: " trade[*] }} {{"\\nRisk: " check[*,{rounds},*]}}
output decision
"""


def flows(small):
    """name -> (text, columns of a row: how to draw them)"""
    if small:
        return {"mapred-mmlu": (map_reduce(3, False), mmlu),
                "mapred-tatqa": (map_reduce(3, True), tatqa),
                "debate-mmlu": (debate(False), mmlu), "debate-tatqa": (debate(True), tatqa),
                "reflect-tatqa": (reflect(), tatqa),
                "iterative-amazon": (iterative(2), amazon(2)),
                "parallel-amazon": (parallel(3, 2), amazon(2))}
    return {"mapred-mmlu": (map_reduce(14, False), mmlu),
            "mapred-tatqa": (map_reduce(7, True), tatqa),
            "debate-mmlu": (debate(False), mmlu), "debate-tatqa": (debate(True), tatqa),
            "reflect-tatqa": (reflect(), tatqa),
            "iterative-amazon": (iterative(6), amazon(6)),
            "parallel-amazon": (parallel(7, 6), amazon(6)),
            "trading": (trading(), stocks)}


def about(draw, tokens):
    return max(1, round(tokens * draw.lognormvariate(0, 0.35)))


def mmlu(row, draw, _day):
    return {"question": f"mmlu{row}:{about(draw, 100)}"}


def tatqa(row, draw, _day):
    """Six questions to a context; its length is drawn once."""
    context = row // 6
    length = about(random.Random(f"tatqa {context}"), 700)
    return {"context": f"report{context}:{length}", "question": f"tatqa{row}:{about(draw, 25)}"}


def amazon(chunks):
    return lambda row, draw, _day: {f"reviews[{c}]": f"item{row}.{c}:{about(draw, 800)}"
                                    for c in range(1, chunks + 1)}


def stocks(row, draw, day):
    """On the second day the accounts and half of what is social are as they were."""
    cells = {"stock": f"stock{row}:{8}"}
    for analyst in "market social news accounts".split():
        for part in (1, 2):
            stays = analyst == "accounts" or (analyst == "social" and part == 1)
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


def main():
    parser = argparse.ArgumentParser(description="Flow files and rows after the Helium paper.")
    parser.add_argument("--small", action="store_true", help="those of table 6")
    parser.add_argument("--rows", type=int, default=48, help="of each; trading: a third of it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("directory", type=pathlib.Path)
    words = parser.parse_args()
    words.directory.mkdir(parents=True, exist_ok=True)
    for name, (text, columns) in flows(words.small).items():
        text = "\n".join(line for line in text.split("\n") if line) + "\n"
        (words.directory / f"{name}.flow").write_text(text, encoding="utf-8")
        count = max(1, words.rows // 3) if name == "trading" else words.rows
        for day in (1, 2) if name == "trading" else (1,):
            suffix = ".2.tsv" if day == 2 else ".tsv"
            (words.directory / (name + suffix)).write_text(
                rows_text(columns, count, words.seed, day), encoding="utf-8")


if __name__ == "__main__":
    main()
