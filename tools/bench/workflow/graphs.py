# SPDX-License-Identifier: MIT
"""Graphs of agents, and a client that drives them from outside, node by node: for the comparison in
live.py, and for tests that compare tokens."""
import asyncio
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools" / "sdk" / "python"))
import agentix                                      # noqa: E402
from agentix.flow import INPUT, LLM, TEXT, Node     # noqa: E402

# A token each in the vocabulary of tools/mkmodel.
WORDS = "the of and to in is that it for was on with he be we as you not or can".split()


def words(name, count):
    """So many tokens, always the same for a name."""
    draw = random.Random(name)
    return "".join(" " + draw.choice(WORDS) for _ in range(max(1, round(count))))


class Builder:
    """Flows whose lengths are scaled: the graphs of the Helium paper, lengths of our own."""

    def __init__(self, scale):
        self.scale, self.flow = scale, agentix.Flow()

    def say(self, name, count):
        return words(name, count * self.scale)

    def llm(self, *pieces, out):
        return self.flow.llm(*pieces, max=max(1, round(out * self.scale)), ignore_eos=True)

    def debate(self):
        """Three agents, two rounds, a judge; a context is that of six questions."""
        flow, agents = self.flow, ("anna", "bert", "carl")
        context, question = flow.input("context"), flow.input("question")
        heads = {agent: f"You are {agent}." + self.say("debater", 120) + f"\nContext:{context}"
                        f"\nQuestion:{question}" for agent in agents}
        said = {agent: self.llm(heads[agent], "\nAnswer:", out=180) for agent in agents}
        again = {agent: self.llm(heads[agent], f"\nYou said:{said[agent]}", flow.each(
            [said[other] for other in agents if other != agent], "\nAnother:{}"), "\nAnswer:",
            out=180) for agent in agents}
        flow.output(self.llm(self.say("judge", 120), f"\nQuestion:{question}",
                             flow.each(again.values(), "\nHeard:{}"), out=60), "answer")
        return flow

    def rows_of_debate(self, count):
        return [{"context": self.say(f"context{row // 6}", 700),
                 "question": self.say(f"question{row}", 25)} for row in range(count)]

    def trading(self, traders=8, rounds=2):
        """Analysts of documents, a debate on their views, traders with three risk managers each."""
        flow = self.flow
        stock = flow.input("stock")
        views = flow.text(f"\nStock:{stock}", flow.each(
            [self._view(analyst, stock) for analyst in ("market", "social", "news", "accounts")],
            "\nView:{}"))
        claims = self._rounds({side: f"You argue as {side}." + self.say("researcher", 220) +
                               f"{views}" for side in ("bull", "bear")}, rounds, 150)
        plan = self.llm(self.say("manager", 240), views, flow.each(claims, "\nClaim:{}"), out=200)
        trades = [self.llm(self.say("rules", 220), f"You are {i}", self.say(f"trader{i}", 60),
                           f"\nPlan:{plan}", out=120) for i in range(traders)]
        checks = [check for trade in trades for check in self._rounds(
            {risk: f"Risk: you are {risk}." + self.say("risk", 220) + f"\nPlan:{plan}"
             f"\nTrade:{trade}" for risk in ("bold", "calm", "fair")}, rounds, 100)]
        flow.output(self.llm(self.say("fund", 240), f"\nStock:{stock}", flow.each(
            trades, "\nTrade:{}"), flow.each(checks, "\nRisk:{}"), out=150), "decision")
        return flow

    def _view(self, analyst, stock):
        head = f"You study {analyst}." + self.say("analyst", 220)
        notes = [self.llm(head, "\nDocument:", self.flow.input(f"{analyst}{part}"), out=150)
                 for part in range(2)]
        return self.llm(head, f"\nStock:{stock}", self.flow.each(notes, "\nNote:{}"), out=180)

    def _rounds(self, heads, rounds, out):
        """A debate: in each round each one hears itself and the others."""
        said = {who: self.llm(head, out=out) for who, head in heads.items()}
        for _ in range(rounds - 1):
            said = {who: self.llm(head, f"\nYou said:{said[who]}", self.flow.each(
                [said[other] for other in heads if other != who], "\nAnother:{}"), out=out)
                for who, head in heads.items()}
        return list(said.values())

    def rows_of_trading(self, count):
        """All rows read the same news of the market."""
        names = [node.name for node in self.flow.nodes if node.kind == INPUT]
        return [{name: self.say(f"stock{row}", 8) if name == "stock" else
                 self.say(name + ("" if name.startswith("market") else str(row)), 600)
                 for name in names} for row in range(count)]


class Tokens:
    """Ids of texts, before the clock starts."""

    def __init__(self, model):
        self.model, self.known = model, {}
        # After a newline no token joins what comes, so that a text that goes on has no prefix.
        self.newline = len(self._encode("\n"))

    def _encode(self, text):
        with tempfile.NamedTemporaryFile() as file:
            file.write(text.encode())
            file.flush()
            command = [ROOT / "build" / "agx", "tokenize", "--vocab", self.model, "--file",
                       file.name]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [int(word) for word in said.split()]

    def of(self, text, leads):
        if (text, leads) not in self.known:
            self.known[text, leads] = self._encode(text) if leads else \
                self._encode("\n" + text)[self.newline:]
        return self.known[text, leads]


class Outside:
    """A row of a graph, node by node."""

    def __init__(self, flow, tokens):
        self.flow, self.tokens = flow, tokens
        self.pieces = {node: self._joined(self._inlined(node)) for node in flow.nodes
                       if node.kind == LLM}

    def _inlined(self, node):
        for piece in node.pieces:
            if isinstance(piece, Node) and piece.kind == TEXT:
                yield from self._inlined(piece)
            else:
                yield piece

    def _joined(self, pieces):
        joined = []
        for piece in pieces:
            if joined and isinstance(piece, str) and isinstance(joined[-1], str):
                joined[-1] += piece
            else:
                joined.append(piece)
        return joined

    def prepare(self, rows):
        for node, pieces in self.pieces.items():
            for i, piece in enumerate(pieces):
                for row in rows:
                    if isinstance(piece, str):
                        self.tokens.of(piece, i == 0)
                    elif piece.kind == INPUT:
                        self.tokens.of(row[piece.name], i == 0)

    async def run(self, client, row, program):
        values = {}

        async def value_of(piece, leads):
            if isinstance(piece, str):
                return self.tokens.of(piece, leads)
            if piece.kind == INPUT:
                return self.tokens.of(row[piece.name], leads)
            return (await values[piece]).tokens

        async def execute(node):
            prompt = [client.welcome["bos_id"]]
            for i, piece in enumerate(self.pieces[node]):
                prompt += await value_of(piece, i == 0)
            return await client.call(prompt, max_tokens=node.max, program=program, text=False,
                                     ignore_eos=True)
        for node in self.pieces:
            values[node] = asyncio.ensure_future(execute(node))
        await asyncio.gather(*values.values())
        return [(await values[node]).tokens for node in self.flow.outputs.values()]


async def run_outside(client, rows, outside, one_program=False):
    """All rows at once: tokens of the outputs of each."""
    return await asyncio.gather(*(outside.run(client, row, "all" if one_program else f"row {i}")
                                  for i, row in enumerate(rows)))
