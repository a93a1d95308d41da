# SPDX-License-Identifier: MIT
"""How tokens are drawn, and what ends a call."""
from __future__ import annotations

import dataclasses
import struct
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

Stop = Union[str, int]
STOP_IDS_MAX, STOP_TEXTS_MAX, STOP_BYTES_MAX = 15, 4, 64


@dataclasses.dataclass(frozen=True)
class Sampling:
    """`stop` holds texts and token ids. Temperature 0 is greedy; then the seed does not matter."""
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    seed: Optional[int] = None
    stop: Tuple[Stop, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, (str, int)) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        if len(self.stop_ids) > STOP_IDS_MAX or len(self.stop_texts) > STOP_TEXTS_MAX:
            raise ValueError(f"at most {STOP_TEXTS_MAX} stop texts and {STOP_IDS_MAX} stop ids")
        if any(not 1 <= len(text) <= STOP_BYTES_MAX for text in self.stop_texts):
            raise ValueError(f"a stop text has 1 to {STOP_BYTES_MAX} bytes")

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

    def stops(self) -> bytes:
        """What follows the fixed part: ids, then texts."""
        return struct.pack(f"<{len(self.stop_ids)}I", *self.stop_ids) + \
            b"".join(struct.pack("<H", len(text)) + text for text in self.stop_texts)
