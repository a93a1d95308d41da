# SPDX-License-Identifier: MIT
"""What tasks are made of: names, goods, numbers. And the split: what is held out of training.

A word or number is held out by a hash of itself, so that no list can go stale: training never draws
a value for which held_out() is true, and the tasks that we are measured by draw no others.
"""
import hashlib
import re
from random import Random

from topics import FACTS

TRAIN, TEST = "train", "test"
HELD_OUT_OF = 5         # one value in five

NAME_STARTS = ("Ma To Li Ke Sa Da Be Ro Ni Pa Ve Jo Ta Lu Mi Ha Ne Al El Or Fa Go Ri Su "
               "Wi Za Ca Em Ib Yo").split()
NAME_ENDS = ("ra bin na lo rin da mas vi ko len dor sa mi tan ris bo lia nek lin "
             "ron va ta mon dia sel go per nia kim to").split()
MADE_STARTS = "zo me fa lu tri bo ka ve du pi so ne gra sta bre klo mi ta ru fe".split()
MADE_ENDS = ("rin fal mite dar lon sk mer vin tas num gol pine rel dis bon lac set zin mor "
             "tel").split()
MIDDLES = "ra ne li do mu ka te si vo na be ru".split()
GOODS = ("rice tea salt flour corn wheat sugar soap paint wool silk coal sand oats barley rye "
         "honey milk oil glue clay wax rope wood paper cotton linen pepper coffee cocoa ginger "
         "garlic butter cheese bread fish meat juice water wine vinegar chalk iron copper tin "
         "zinc lead gravel cement ink leather yeast mustard jam syrup lime ash straw hay").split()
CONSONANTS = [*"bcdfghjklmnpqrstvwxz"] + "ch sh th br cr dr fl gr pl st tr wh sp cl bl".split()
VOWELS = [*"aeiouy"] + "ee ea oo ou oa ai ui".split()
UNITS = ("bags", "boxes", "jars", "crates", "tons")
THINGS = "coins shells stamps pens cards beads nuts keys books cups stones seeds".split()

CHAT_WORDS = sorted(set(re.findall("[a-z]{3,}", str(FACTS).lower())))
# Many thousands, so that it is easier to read one than to know it.
_NAMES = [start + middle + end for start in NAME_STARTS for middle in ["", *MIDDLES]
          for end in NAME_ENDS]
_MADE = [start + middle + end for start in MADE_STARTS for middle in ["", *MIDDLES]
         for end in MADE_ENDS]


def held_out(value) -> bool:
    return hashlib.sha256(str(value).encode()).digest()[0] % HELD_OUT_OF == 0


def _of(split: str, values: list) -> list:
    return [value for value in values if held_out(value) == (split == TEST)]


_WORDS = {split: [_of(split, values) for values in (_NAMES, GOODS, _MADE)]
          for split in (TRAIN, TEST)}


class Words:
    """Draws from one split."""

    def __init__(self, split: str, random: Random):
        self.split, self.random = split, random
        self.names, self.goods, self.made = _WORDS[split]

    def name(self) -> str:
        return self.random.choice(self.names)

    def names_of(self, count: int) -> list:
        return self.random.sample(self.names, count)

    def any_word(self) -> str:
        """Letters that can be spoken: so every piece of the vocabulary is copied somewhere."""
        while True:
            parts = [self.random.choice(CONSONANTS) + self.random.choice(VOWELS) +
                     self.random.choice(["", "", self.random.choice(CONSONANTS)])
                     for _ in range(self.random.randint(1, 3))]
            word = "".join(parts)
            word = word[self.random.random() < 0.2:]    # some begin with a vowel
            if self.random.random() < 0.3:              # some begin like a word of the chat
                word = self.random.choice(CHAT_WORDS) + word
            if len(word) > 2 and held_out(word) == (self.split == TEST):
                return word

    def good(self) -> str:
        return self.random.choice([lambda: self.random.choice(self.goods),
                                   lambda: self.random.choice(self.goods),
                                   lambda: self.random.choice(self.made), self.any_word])()

    def goods_of(self, count: int) -> list:
        """Real goods and made-up ones: what is new in a shop must be read, not known."""
        chosen = {}
        while len(chosen) < count:
            chosen[self.good()] = True
        return list(chosen)

    def number(self, low: int, high: int) -> int:
        """As many short numbers as long ones; single digits belong to both splits."""
        while True:
            digits = self.random.randint(len(str(low)), len(str(high)))
            value = self.random.randint(max(low, 10 ** (digits - 1)), min(high, 10 ** digits - 1))
            if value < 10 or held_out(value) == (self.split == TEST):
                return value

    def multiple(self, factor: int, high: int) -> int:
        """A product of `factor`, for an exact division."""
        while True:
            value = factor * self.random.randint(2, max(2, high // factor))
            if value < 50 or held_out(value) == (self.split == TEST):
                return value

    def form(self, family: str, wordings: int, kinds: int) -> tuple:
        """A composition (wording, kind of thing) of a family; one in five is held out."""
        forms = [(w, k) for w in range(wordings) for k in range(kinds)]
        return self.random.choice([form for i, form in enumerate(forms) if
                                   ((i + len(family)) % HELD_OUT_OF == 0) == (self.split == TEST)])
