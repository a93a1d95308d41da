# SPDX-License-Identifier: MIT
"""Chat formats: a conversation as the prompt that a model was trained on. The appliance says which
format its model has (CHAT); config/chat writes all of them, and this file those that write every
message alike. selftest/e2e/test_sdk_python.py compares them with `agx render`.

A prompt has two kinds of text. Special tokens are found in what the format writes (Markup), and
never in what the conversation says."""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Tuple, Union

from agentix.errors import Error

# Of a conversation: a pair, or the dict that other libraries take.
Message = Union[Tuple[str, str], Mapping[str, str]]
ROLES = ("system", "user", "assistant")


class Markup(str):
    """Text of a template: special tokens are found in it."""


@dataclasses.dataclass(frozen=True)
class Row:
    """What comes before and after a message of the system, the user, the assistant."""
    before: Tuple[str, ...]
    after: Tuple[str, ...]
    answer: str                     # before the answer
    stop: Tuple[str, ...] = ()      # texts that end an answer, where there is no token for it
    strips: bool = False            # messages are stripped
    bos: bool = False               # the prompt begins with BOS
    looks_at_all: bool = False      # for a system message; else only at the first message
    insists: bool = False           # says one even where the model's own is empty
    recalls: bool = True            # False: answers of earlier turns need more than this row


BOS, EOS = "\1", "\2"               # stand for the texts of these tokens
IM = ("<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n")
IM_END = 3 * ("<|im_end|>\n",)
HEADER = "<|start_header_id|>{}<|end_header_id|>\n\n"
ANGLES = ("<|system|>\n", "<|user|>\n", "<|assistant|>\n")
ROWS: Dict[str, Row] = {
    "plain": Row(("", "User: ", "Bot: "), 3 * ("\n",), "Bot:", ("\nUser:",), strips=True, bos=True),
    "chatml": Row(IM, IM_END, IM[2]),
    "chatml-bos": Row(IM, IM_END, IM[2], bos=True),
    "qwen2.5": Row(IM, IM_END, IM[2], insists=True),
    "qwen3": Row(IM, IM_END, IM[2], recalls=False),
    "qwen3-think": Row(IM, IM_END, IM[2] + "<think>\n", recalls=False),
    "llama3": Row(tuple(HEADER.format(role) for role in ROLES), 3 * ("<|eot_id|>",),
                  HEADER.format("assistant"), strips=True, bos=True),
    "mistral-v7": Row(("[SYSTEM_PROMPT] ", "[INST] ", " "),
                      ("[/SYSTEM_PROMPT]", "[/INST]", EOS), "", bos=True),
    "mistral-v7t": Row(("[SYSTEM_PROMPT]", "[INST]", ""),
                       ("[/SYSTEM_PROMPT]", "[/INST]", EOS), "", bos=True),
    "zephyr": Row(ANGLES, 3 * (EOS + "\n",), ANGLES[2]),
    "tulu": Row(ANGLES, ("\n", "\n", EOS + "\n"), ANGLES[2]),
    "deepseek": Row(("", "User: ", "Assistant: "), ("\n\n", "\n\n", EOS), "Assistant:", bos=True),
    "deepseek-coder": Row(("", "### Instruction:\n", "### Response:\n"),
                          ("", "\n", "\n<|EOT|>\n"), "### Response:\n", bos=True,
                          looks_at_all=True),
}


def as_messages(messages: Iterable[Message], texts: Any = str) -> Iterator[Tuple[str, Any]]:
    """(role, content) of each: pairs, or the dicts that other libraries take. `texts` are the types
    that a content may have."""
    for number, each in enumerate(messages):
        where = f"messages[{number}]"
        pair = [each.get("role"), each.get("content")] if isinstance(each, Mapping) else each
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"{where}: a role and a text are needed, not {each!r}")
        role, content = pair
        if role not in ROLES:
            raise ValueError(f"{where}: a role is system, user or assistant, not {role!r}")
        if not isinstance(content, texts):
            raise TypeError(f"{where}: content: a text is needed, not {content!r}")
        yield role, content


def is_conversation(prompt: object) -> bool:
    """True when it is a list of messages; a list of token ids is none."""
    return isinstance(prompt, (list, tuple)) and len(prompt) > 0 and \
        isinstance(prompt[0], (list, tuple, Mapping))


def conversation(messages: Any) -> Any:
    """The messages, if they are some: a text would be sent as it is, without the model's marks."""
    if not is_conversation(messages) and not isinstance(messages, Prompt):
        raise TypeError("messages: a list of pairs of a role and a text is needed, not "
                        f"{messages!r}")
    return messages


@dataclasses.dataclass(frozen=True)
class Prompt:
    """`pieces`: Markup, and texts of the conversation. `stop`: what ends the answer, besides
    tokens of the model."""
    pieces: Tuple[str, ...]
    stop: Tuple[str, ...]

    @property
    def parts(self) -> List[str]:
        """For CALL: of the template, of the conversation, and so on."""
        parts = [""]
        for piece in self.pieces:
            if isinstance(piece, Markup) == (len(parts) % 2 == 1):
                parts[-1] += piece
            else:
                parts.append(str(piece))
        return parts


@dataclasses.dataclass(frozen=True)
class Format:
    """The format of a model. `system` is said where a conversation has no system message."""
    name: str
    bos: str = ""
    eos: str = ""
    system: str = ""

    @classmethod
    def of_chat(cls, said: Mapping[str, Any], system: str) -> Format:
        names = {key: said[key].rstrip(b"\0").decode() for key in ("format", "bos", "eos")}
        if said["verdict"] == 2:
            raise Error("the model's chat template is not known; name a format: chat.Format(...)")
        return cls(names["format"], names["bos"], names["eos"], system)

    @property
    def row(self) -> Row:
        if self.name not in ROWS:
            raise Error(f"this package does not write the chat format {self.name}; it writes "
                        f"{', '.join(ROWS)}. Write its marks as chat.Markup(...)")
        return ROWS[self.name]

    def prompt(self, messages: Iterable[Message], bos: bool = True) -> Prompt:
        """`bos` False: what sends the prompt puts BOS before it."""
        row = self.row
        pieces: List[str] = []
        said = list(as_messages(messages))
        self._check(said)
        looked_at = said if row.looks_at_all else said[:1]
        says_one = self.system or row.insists
        if says_one and all(role != "system" for role, _ in looked_at):
            pieces += [Markup(row.before[0] + self.system + row.after[0])]
        for role, content in said:
            index = ROLES.index(role)
            pieces += [Markup(row.before[index]), content.strip() if row.strips else content,
                       Markup(row.after[index])]
        pieces = [Markup(BOS if row.bos and bos else ""), *pieces, Markup(row.answer)]
        return Prompt(tuple(self._spell(piece) for piece in pieces if piece), row.stop)

    def _spell(self, piece: str) -> str:
        if not isinstance(piece, Markup):
            return piece
        return Markup(piece.replace(BOS, self.bos).replace(EOS, self.eos))

    def _check(self, messages: List[Tuple[str, str]]) -> None:
        if not messages or messages[-1][0] == "assistant":
            raise ValueError("a conversation ends with a question")
        if not self.row.recalls and any(role == "assistant" for role, _ in messages):
            raise Error(f"this package writes {self.name} without earlier answers")
