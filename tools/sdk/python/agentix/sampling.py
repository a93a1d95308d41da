# SPDX-License-Identifier: MIT
"""How tokens are drawn, and what ends a call."""
from __future__ import annotations

import dataclasses
import struct
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from agentix import arguments, frames

Stop = Union[str, int]
STOP_IDS_MAX, STOP_TEXTS_MAX, STOP_BYTES_MAX, BIASES_MAX = 15, 4, 64, 64
_MORE = struct.Struct("<" + "".join(frames.PARTS["call_more"].values()))
_BIAS = struct.Struct("<" + "".join(frames.PARTS["call_bias"].values()))


def of_options(function: Callable[..., Any], options: Dict[str, Any]) -> Sampling:
    """Of the named arguments that `function` does not have itself."""
    arguments.known(function, options, FIELDS)
    return Sampling(**options)


def _stops(stop: Any) -> Tuple[Stop, ...]:
    if isinstance(stop, (bytes, bytearray)) or not (
            isinstance(stop, (str, int)) or hasattr(stop, "__iter__")):
        raise TypeError(f"stop: texts and token ids are needed, not {stop!r}")
    given = (stop,) if isinstance(stop, (str, int)) else tuple(stop)
    return tuple(each if isinstance(each, str) else arguments.whole("stop: token id", each)
                 for each in given)


def _biases(biases: Any) -> Tuple[Tuple[int, float], ...]:
    try:
        pairs = dict(biases).items()
    except (TypeError, ValueError):
        raise TypeError("logit_bias: a dict of token ids and numbers is needed, "
                        f"not {biases!r}") from None
    return tuple(sorted((arguments.whole("logit_bias: token id", token),
                         arguments.number("logit_bias", bias)) for token, bias in pairs))


@dataclasses.dataclass(frozen=True)
class Sampling:
    """`stop` holds texts and token ids. Temperature 0 is greedy; then the seed does not matter.
    `logit_bias` is given as a dict, a token id and what is added to its logit; kept are pairs.
    `logprobs` asks for the log probability of each token and of so many alternatives, 0 to 20,
    `drafts` for what drafts brought; an older appliance refuses that."""
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Any = ()
    logprobs: Optional[int] = None
    seed: Optional[int] = None
    stop: Tuple[Stop, ...] = ()
    ignore_eos: bool = False
    drafts: bool = False

    def __post_init__(self) -> None:
        self._set("stop", _stops(self.stop))
        self._set("logit_bias", _biases(self.logit_bias))
        for field in dataclasses.fields(self):
            if field.type == "float":
                self._set(field.name, arguments.number(field.name, getattr(self, field.name)))
        self._set("top_k", arguments.whole("top_k", self.top_k))
        if self.logprobs is not None:
            self._set("logprobs", arguments.whole("logprobs", self.logprobs, 0xff))
        if self.seed is not None:
            self._set("seed", arguments.whole("seed", self.seed, arguments.U64))
        if len(self.stop_ids) > STOP_IDS_MAX or len(self.stop_texts) > STOP_TEXTS_MAX:
            raise ValueError(f"stop: at most {STOP_TEXTS_MAX} texts and {STOP_IDS_MAX} ids")
        if any(not 1 <= len(text) <= STOP_BYTES_MAX for text in self.stop_texts):
            raise ValueError(f"stop: a text has 1 to {STOP_BYTES_MAX} bytes")
        if len(self.logit_bias) > BIASES_MAX:
            raise ValueError(f"logit_bias: at most {BIASES_MAX} tokens")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def with_stop(self, more: Iterable[Stop]) -> Sampling:
        return dataclasses.replace(self, stop=self.stop + tuple(more))

    @property
    def stop_ids(self) -> List[int]:
        return [each for each in self.stop if not isinstance(each, str)]

    @property
    def stop_texts(self) -> List[bytes]:
        return [each.encode() for each in self.stop if isinstance(each, str)]

    def fields(self, seed: int) -> Dict[str, Any]:
        """Of a CALL, or of a node of FLOW_OPEN; `seed` stands for one that was not chosen."""
        greedy = self.temperature == 0
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p,
                "min_p": self.min_p, "repeat_penalty": self.repeat_penalty,
                "seed": self.seed if self.seed is not None else 0 if greedy else seed,
                "stop_ids": len(self.stop_ids), "stop_texts": len(self.stop_texts)}

    @property
    def has_more(self) -> bool:
        """True when it asks for what only a CALL with MORE says, and no node of a workflow."""
        return bool(self.presence_penalty or self.frequency_penalty or self.logit_bias or
                    self.logprobs is not None)

    def more(self) -> bytes:
        """What then stands before the prompt."""
        if not self.has_more:
            return b""
        fixed = _MORE.pack(self.presence_penalty, self.frequency_penalty, len(self.logit_bias),
                           self.logprobs is not None, self.logprobs or 0, b"")
        return fixed + b"".join(_BIAS.pack(*bias) for bias in self.logit_bias)

    def stops(self) -> bytes:
        """What follows the fixed part: ids, then texts."""
        return struct.pack(f"<{len(self.stop_ids)}I", *self.stop_ids) + \
            b"".join(struct.pack("<H", len(text)) + text for text in self.stop_texts)


FIELDS = {field.name for field in dataclasses.fields(Sampling)}
