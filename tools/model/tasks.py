# SPDX-License-Identifier: MIT
"""Endless tasks with their solutions, each a pure function of (split, seed).

Every word that the model copies stands after a blank, in a tool's brackets too: so it is cut into
the same tokens there and here.

A task is a client's questions (prompts) and the right answers. Its transcripts are the way of a
good agent: call by call, the words of the client and of the model. The model's part of a transcript
never computes what the client has a tool for; it reads, copies and decides. Only in a vote does the
model compute by itself, which is why it is a vote.

    kind    programs of calls                                  in the paper's terms
    react   prompt -> (think, act -> observation)* -> answer   a chain with tool calls between
    map     one call for each part, then a merge with a tool   fan-out, fan-in
    vote    the same question in several wordings; most wins   parallel threads
    chat    one call for each line of the user                 a chain with a person between

A greeting is a chat without a program around it: what a person types first, with no form at all.
"""
import re
from dataclasses import dataclass, field
from random import Random

import greetings
from topics import ABOUT_ME, COLOURS, FACTS, GREETINGS, LEADS
from words import TEST, THINGS, TRAIN, UNITS, Words, held_out

LONG_OF = 25            # one task in so many is long: the context is 1,024 tokens


@dataclass
class Task:
    kind: str
    family: str
    prompts: list
    answers: list
    transcripts: list = field(default_factory=list)     # of (client's text, model's text) each


# ---- tools: the same two that tools/agx gives its agents -----------------------------------------

def calculate(expression: str) -> str:
    """Whole numbers, + - * /, the usual precedence; for our own, valid expressions only."""
    return str(eval(expression.replace("/", "//"), {"__builtins__": {}}))


def look_up(table: dict, argument: str) -> str:
    good, _, column = argument.rpartition(" ")
    return str(table.get(good, {}).get(column, "none"))


class Solution:
    """A transcript of one ReAct agent in the making."""

    def __init__(self, prompt: str, table: dict):
        self.table, self.client, self.calls = table, prompt, []

    def _act(self, think: str, act: str, observation: str) -> str:
        said = f"Think: {think}\nAct: {act}" if think else f"Act: {act}"
        self.calls.append((self.client, said))
        self.client = f"\nObs: {observation}\n"
        return observation

    def look_up(self, good: str, column: str) -> int:
        argument = f"{good} {column}"
        found = self._act(f"I need the {column} of {good}.", f"lookup[ {argument} ]",
                          look_up(self.table, argument))
        return None if found == "none" else int(found)

    def calculate(self, think: str, expression: str) -> str:
        return self._act(think, f"calc[ {expression} ]", calculate(expression))

    def answer(self, text) -> str:
        self.calls.append((self.client, f"Answer: {text}"))
        return str(text)


# ---- react: questions about a table --------------------------------------------------------------
# A family is (wordings, solve). solve(words, shop, q) fills q's numbers and returns nothing; the
# question is formatted with q afterwards, so wordings and sums stay side by side.

def cost_of_one(s, q):
    return s.calculate("I multiply.", f"{q['n']}*{s.look_up(q['g'], 'price')}")


def cost_of_two(s, q):
    first, second = s.look_up(q["g"], "price"), s.look_up(q["h"], "price")
    return s.calculate("I multiply and add.", f"{q['n']}*{first}+{q['m']}*{second}")


def change(s, q):
    return s.calculate("I take the cost from the money.",
                       f"{q['money']}-{q['n']}*{s.look_up(q['g'], 'price')}")


def weight_of(s, q):
    return s.calculate("I multiply.", f"{q['n']}*{s.look_up(q['g'], 'weight')}")


def worth(s, q):
    price = s.look_up(q["g"], "price")
    return s.calculate("I multiply.", f"{s.look_up(q['g'], 'stock')}*{price}")


def more_of(s, q):
    first, second = s.look_up(q["g"], "stock"), s.look_up(q["h"], "stock")
    return s.calculate("I subtract.", f"{first}-{second}")


def left(s, q):
    return s.calculate("I subtract.", f"{s.look_up(q['g'], 'stock')}-{q['n']}")


def share(s, q):
    return s.calculate("I divide.", f"{s.look_up(q['g'], 'stock')}/{q['k']}")


def read(s, q):
    return s.look_up(q["g"], q["column"])


def cheaper(s, q):
    first, second = s.look_up(q["g"], "price"), s.look_up(q["h"], "price")
    difference = s.calculate("I compare.", f"{first}-{second}")
    return q["g"] if difference.startswith("-") else q["h"]


FAMILIES = [
    (cost_of_one, ["What do {n} {unit} of {g} cost?", "What is the cost of {n} {unit} of {g}?",
                   "How much do I pay for {n} {unit} of {g}?"]),
    (cost_of_two, ["What do {n} {unit} of {g} and {m} {unit} of {h} cost?",
                   "{P} buys {n} {unit} of {g} and {m} {unit} of {h}. What does {P} pay?",
                   "How much do I pay for {n} {unit} of {g} and {m} of {h}?"]),
    (change, ["{P} pays {money} for {n} {unit} of {g}. What change does {P} get?",
              "{P} has {money} and buys {n} {unit} of {g}. How much money is left?",
              "I have {money} and buy {n} {unit} of {g}. What do I have left?"]),
    (weight_of, ["What do {n} {unit} of {g} weigh?", "What is the weight of {n} {unit} of {g}?",
                 "{P} carries {n} {unit} of {g}. How heavy is that?"]),
    (worth, ["What are all {unit} of {g} worth?", "{P} buys all {unit} of {g}. What does {P} pay?",
             "What is the cost of all {unit} of {g}?"]),
    (more_of, ["How many more {unit} of {g} than of {h} are there?",
               "How many {unit} of {g} are there beyond those of {h}?",
               "{P} counts {unit} of {g} and of {h}. How many more of {g}?"]),
    (left, ["{P} takes {n} {unit} of {g}. How many are left?",
            "How many {unit} of {g} are left when {P} takes {n}?",
            "We sell {n} {unit} of {g}. How many {unit} do we keep?"]),
    (share, ["{k} friends share all {unit} of {g}. How many does each get?",
             "We put all {unit} of {g} on {k} carts. How many are on each?",
             "{P} splits all {unit} of {g} in {k} parts. How many {unit} are in one?"]),
    (read, ["What is the {column} of {g}?", "Look up the {column} of {g}.",
            "{P} asks for the {column} of {g}."]),
    (cheaper, ["Which costs less, {g} or {h}?", "Is {g} or {h} cheaper?",
               "{P} wants the cheaper one of {g} and {h}. Which is it?"]),
]


def make_shop(words: Words, rows: int) -> dict:
    return {good: {"price": words.number(2, 99), "stock": words.number(10, 999),
                   "weight": words.number(2, 99)} for good in words.goods_of(rows)}


def table_text(shop: dict) -> str:
    return "Table:\n" + "".join(
        f"{good}: " + ", ".join(f"{column} {value}" for column, value in row.items()) + "\n"
        for good, row in shop.items())


def draw_question(words: Words, shop: dict, family: str, unit: int) -> dict:
    g, h = words.random.sample(list(shop), 2)
    q = dict(P=words.name(), g=g, h=h, n=words.number(2, 99), m=words.number(2, 99),
             unit=UNITS[unit], column=words.random.choice(["price", "stock", "weight"]))
    q["money"] = words.number(100, 999)
    q["k"] = words.number(2, 20)
    if family == "change":
        q["n"] = words.number(2, 9)
    if family == "share":
        shop[g]["stock"] = words.multiple(q["k"], 999)
    if family == "left":
        shop[g]["stock"] = words.number(100, 999)
    if family == "more_of" and shop[g]["stock"] < shop[h]["stock"]:
        q["g"], q["h"] = h, g
    if family == "cheaper" and shop[g]["price"] == shop[h]["price"]:
        shop[g]["price"] = shop[h]["price"] % 9 + 1
    return q


def table_task(words: Words, is_long: bool) -> Task:
    solve, wordings = words.random.choice(FAMILIES)
    family = solve.__name__
    wording, unit = words.form(family, len(wordings), len(UNITS))
    shop = make_shop(words, words.random.randint(10, 30) if is_long else words.random.randint(2, 6))
    q = draw_question(words, shop, family, unit)
    is_missing = words.random.random() < 0.05
    if is_missing:      # the first look-up finds nothing, and that is the answer
        del shop[q["g"]]
    solution = Solution(table_text(shop) + "Task: " + wordings[wording].format(**q) + "\n", shop)
    if is_missing:
        solution.look_up(q["g"], {"weight_of": "weight", "more_of": "stock", "left": "stock",
                                  "share": "stock", "read": q["column"]}.get(family, "price"))
        answer = solution.answer("unknown")
    else:
        answer = solution.answer(solve(solution, q))
    return Task("react", family, [solution.calls[0][0]], [answer], [solution.calls])


# ---- react: plans of several steps ---------------------------------------------------------------

STEPS = [
    ("+", ["{P} finds {n} more.", "{P} buys {n} more.", "{Q} gives {n} to {P}."]),
    ("-", ["{P} gives away {n}.", "{P} loses {n}.", "{P} sells {n} of them."]),
    ("*", ["{P} then wins until there are {n} times as many.", "The number grows {n} times.",
           "{P} now gets {n} times as many."]),
]


def plan_task(words: Words, is_long: bool) -> Task:
    wording, thing = words.form("plan", 3, len(THINGS))
    person, other = words.names_of(2)
    start = value = words.number(20, 500)
    text = ["{P} has {v} {t}.", "There are {v} {t} in the house of {P}.",
            "{P} starts with {v} {t}."][wording].format(P=person, v=value, t=THINGS[thing])
    prompt, steps = [text], []
    for _ in range(words.random.randint(2, 6 if is_long else 4)):
        sign, texts = words.random.choice(STEPS if value < 5000 else STEPS[:2])
        n = words.number(2, 9) if sign == "*" else words.number(2, max(2, min(99, value - 1)))
        if sign == "-" and n >= value:
            sign, texts = STEPS[0]
        value = eval(f"{value}{sign}{n}")
        steps.append((sign, n))
        prompt.append(words.random.choice(texts).format(P=person, Q=other, n=n))
    prompt.append([f"How many {THINGS[thing]} does {person} have?", "How many are there now?",
                   f"Count the {THINGS[thing]}."][wording])
    solution = Solution("Task: " + " ".join(prompt) + "\n", {})
    plan = "Plan: " + ", ".join(f"{i + 1}) {s}{n}" for i, (s, n) in enumerate(steps))
    for i, (sign, n) in enumerate(steps):
        start = solution.calculate("", f"{start}{sign}{n}")
        client, said = solution.calls[-1]
        lead = plan + "\n" if i == 0 else ""
        solution.calls[-1] = (client, f"{lead}Step {i + 1}\n{said}")
    answer = solution.answer(start)
    return Task("react", "plan", [solution.calls[0][0]], [answer], [solution.calls])


# ---- map-reduce ----------------------------------------------------------------------------------

NOTES = ["Notes of {P}: {list}.", "{P} sold {list}.", "In the house of {P}: {list}."]


def part_of(words: Words, wanted: str, wording: int, unit: int, lines: int) -> tuple:
    """One part of the notes, and what is to be found in it: nothing, in one of five."""
    goods = [good for good in words.goods_of(lines) if good != wanted]
    if words.random.random() < 0.8:
        goods.insert(words.random.randint(0, len(goods)), wanted)
    numbers = {good: words.number(2, 999) for good in goods}
    listed = ", ".join(f"{good} {number} {UNITS[unit]}" for good, number in numbers.items())
    text = NOTES[wording].format(P=words.name(), list=listed)
    return f"{text}\nFind: {wanted}\n", str(numbers.get(wanted, 0))


def map_task(words: Words, is_long: bool) -> Task:
    wording, unit = words.form("map", len(NOTES), len(UNITS))
    wanted = words.good()
    parts = [part_of(words, wanted, wording, unit,
                     words.random.randint(15, 30) if is_long else words.random.randint(2, 6))
             for _ in range(words.random.randint(2, 6))]
    expression = "+".join(found for _, found in parts)
    merge = Solution(f"Parts: {expression}\nTask: Add the parts.\n", {})
    answer = merge.answer(merge.calculate("I add the parts.", expression))
    transcripts = [[(prompt, f"Found: {found}")] for prompt, found in parts] + [merge.calls]
    return Task("map", "map", [prompt for prompt, _ in parts], [answer], transcripts)


# ---- votes: sums in the head ---------------------------------------------------------------------

PLUS = ["What is {a} plus {b}?", "Add {a} and {b}.", "{P} has {a} {t} and gets {b}. How many?",
        "{a} {t} and {b} {t} make how many?", "How much is {a} and {b} together?"]
MINUS = ["What is {a} minus {b}?", "Take {b} from {a}.", "{P} has {a} {t} and loses {b}. How many?",
         "{b} of {a} {t} are gone. How many are left?", "How much is {a} without {b}?"]


def add_aloud(a: int, b: int) -> str:
    """Column by column, as children do: units, then tens with what was carried."""
    (a1, a0), (b1, b0) = divmod(a, 10), divmod(b, 10)
    carried = (a0 + b0) // 10
    return (f"{a0}+{b0}={a0 + b0}, carry {carried}. "
            f"{a1}+{b1}+{carried}={a1 + b1 + carried}.")


def subtract_aloud(a: int, b: int) -> str:
    (a1, a0), (b1, b0) = divmod(a, 10), divmod(b, 10)
    borrowed = int(a0 < b0)
    return (f"{a0 + 10 * borrowed}-{b0}={a0 + 10 * borrowed - b0}, borrow {borrowed}. "
            f"{a1}-{b1}-{borrowed}={a1 - b1 - borrowed}.")


def vote_task(words: Words, is_long: bool) -> Task:
    del is_long
    while True:
        a, b = words.random.randint(10, 99), words.random.randint(10, 99)
        if held_out((a, b)) == (words.split == TEST):
            break
    is_sum = words.random.random() < 0.5
    if not is_sum and a < b:
        a, b = b, a
    answer, aloud = (a + b, add_aloud(a, b)) if is_sum else (a - b, subtract_aloud(a, b))
    person, thing = words.name(), words.random.choice(THINGS)
    prompts = ["Sum: " + wording.format(a=a, b=b, P=person, t=thing) + "\n"
               for wording in words.random.sample(PLUS if is_sum else MINUS, 3)]
    said = f"Think: {aloud}\nAnswer: {answer}"
    return Task("vote", "vote", prompts, [str(answer)], [[(prompt, said)] for prompt in prompts])


# ---- chat ----------------------------------------------------------------------------------------

def led(words: Words, questions: list) -> str:
    """One of the questions after one of the leads, as a composition of this split."""
    while True:
        line = words.random.choice(LEADS) + words.random.choice(questions)
        if held_out(line) == (words.split == TEST):
            return line


def fact_line(words: Words) -> tuple:
    questions, answer, key = words.random.choice(words.random.choice(list(FACTS.values())))
    return led(words, questions), answer, key


def about_me(words: Words) -> tuple:
    """What a person says, what she asks later."""
    about = words.random.choice(list(ABOUT_ME))
    says, reply, asks, answer = ABOUT_ME[about]
    value = words.random.choice(COLOURS) if about == "colour" else words.name()
    reply, answer = reply.format(value), answer.format(value)
    reply, answer = reply[0].upper() + reply[1:], answer[0].upper() + answer[1:]
    return ((words.random.choice(says).format(value), reply, value),
            (words.random.choice(asks), answer, value))


def greeting(words: Words) -> tuple:
    questions, answer, key = words.random.choice(GREETINGS)
    return words.random.choice(questions), answer, key


def chat_task(words: Words, is_long: bool) -> Task:
    says, asks = about_me(words)
    between = [fact_line(words) if words.random.random() < 0.75 else greeting(words)
               for _ in range(words.random.randint(12, 30) if is_long else
                              words.random.randint(1, 3))]
    before = [greeting(words)] if words.random.random() < 0.3 else []
    lines = before + [says] + between + [asks]
    calls = [(("\n" if i else "") + f"User: {line}\nBot:", f" {answer}")
             for i, (line, answer, _) in enumerate(lines)]
    return Task("chat", "chat", [line for line, _, _ in lines], [key for _, _, key in lines],
                [calls])


def bare_task(words: Words, is_long: bool) -> Task:
    """A question without any form, as a new user types it."""
    del is_long
    line, answer, key = fact_line(words) if words.random.random() < 0.7 else greeting(words)
    answer = greetings.BARE.get(answer, answer)
    return Task("chat", "bare", [line], [key], [[(line, f" {answer}")]])


# ---- greetings -----------------------------------------------------------------------------------

def greeting_line(words: Words) -> tuple:
    """A line of this split; one in five is a question about a topic, typed carelessly. Training has
    the everyday lines more often, and with any mark."""
    random = words.random
    is_everyday = words.split == TRAIN and random.random() < 0.3
    while True:
        if is_fact := random.random() < 0.2:
            questions, answer, key = random.choice(random.choice(list(FACTS.values())))
            wording, mark = random.choice(questions)[:-1], "?"
        else:
            wordings, mark, answer, key = greetings.TOPICS[random.choice(list(greetings.TOPICS))]
            name = words.name()
            wording = fill(words, random.choice(wordings).replace("{Name}", name))
        line = greetings.line(random, wording, ".?!" if is_everyday else mark, is_whole=is_fact)
        if "{Name}" in answer:      # as it was typed
            key = re.search(name, line, re.I)[0]
            answer = answer.replace("{Name}", key)
        bare = greetings.letters(line)
        is_test = held_out(bare) and bare not in greetings.EVERYDAY
        if is_test == (words.split == TEST) and (bare in greetings.EVERYDAY or not is_everyday):
            return line, answer, key


def fill(words: Words, wording: str) -> str:
    """Each {place} with a word of its own."""
    for place, draw_one in (("{good}", words.good), ("{word}", words.any_word),
                            ("{n}", lambda: words.number(1, 999))):
        while place in wording:
            wording = wording.replace(place, str(draw_one()), 1)
    return wording


def greeting_task(words: Words, is_long: bool) -> Task:
    """Most are one line in no frame; in the frame of a chat, a few lines, perhaps after a system
    message."""
    del is_long
    random = words.random
    if random.random() < 0.65:
        line, answer, key = greeting_line(words)
        lines, frame, system = [(line, greetings.BARE.get(answer, answer), key)], "{}", ""
    else:
        lines = [greeting_line(words) for _ in range(random.randint(1, 4))]
        frame = "User: {}\nBot:"
        system = random.choice(greetings.SYSTEMS) + "\n" if random.random() < 0.15 else ""
        lines = [(line.strip(), answer, key) for line, answer, key in lines]
    calls = [(("\n" if i else system) + frame.format(line), f" {answer}")
             for i, (line, answer, _) in enumerate(lines)]
    return Task("chat", "greeting", [line for line, *_ in lines], [key for *_, key in lines],
                [calls])


# ---- drills: what every task needs, without the task ---------------------------------------------
# In a transcript one word in ten is a copy that could not be guessed; in a drill every one is.

def item(words: Words) -> str:
    return words.random.choice([words.name, words.any_word, words.good,
                                lambda: str(words.number(2, 9999))])()


def say_drill(words: Words, is_long: bool) -> Task:
    items = " ".join(item(words) for _ in range(words.random.randint(2, 60 if is_long else 12)))
    return Task("drill", "say", [], [], [[(f"Say: {items}\n", f"Said: {items}")]])


def find_drill(words: Words, is_long: bool) -> Task:
    goods = words.goods_of(words.random.randint(2, 20 if is_long else 6))
    pairs = {good: words.number(2, 9999) for good in goods}
    text = ", ".join(f"{good} {number}" for good, number in pairs.items())
    good = words.random.choice(goods)
    return Task("drill", "find", [], [],
                [[(f"Pairs: {text}\nFind: {good}\n", f"Found: {pairs[good]}")]])


def sum_drill(words: Words, is_long: bool) -> Task:
    """Sums of digits, as votes need them."""
    del is_long
    a, b, carried = (words.random.randint(0, most) for most in (9, 9, 1))
    sign = words.random.choice("+-")
    if sign == "-" and a < b + carried:
        a += 10
    first, rest = f"{a}{sign}{b}", f"{sign}{carried}" if words.random.random() < 0.5 else ""
    value = eval(first + rest)
    return Task("drill", "sum", [], [], [[(f"Count: {first}{rest}\n", f"Counted: {value}")]])


# ---- drawing -------------------------------------------------------------------------------------

# What is measured, and what is trained: more of what is hard, and what no score counts.
MEASURED = [(table_task, 10), (plan_task, 4), (map_task, 2), (vote_task, 2), (chat_task, 3)]
DRILLS = [(say_drill, 2), (find_drill, 5), (sum_drill, 1)]
TRAINED = [(table_task, 10), (plan_task, 6), (map_task, 12), (vote_task, 4), (chat_task, 6),
           (bare_task, 1)] + DRILLS + [(greeting_task, 16)]


def draw(split: str, seed, mix: list = None) -> Task:
    """The task of this seed."""
    random = Random(f"{split}/{seed}")
    makers, weights = zip(*(mix or (TRAINED if split == TRAIN else MEASURED)))
    make = random.choices(makers, weights)[0]
    is_long = random.randrange(LONG_OF) == 0
    return make(Words(split, random), is_long)
