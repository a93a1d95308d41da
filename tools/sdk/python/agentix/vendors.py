# SPDX-License-Identifier: MIT
"""The clients of OpenAI and Anthropic, put into a program by one line. Their packages are built
alike, and are imported only when one of these functions is called."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentix.http import AsyncTransport, Transport

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI

C = TypeVar("C")
# The key that the environment has for the vendor is not sent to the appliance.
NO_KEY = "none"


def openai(program: str, *, base_url: str, agent: str = "", **options: Any) -> OpenAI:
    """An OpenAI client whose requests are of this program. `base_url` is that of the appliance's
    HTTP front door, with /v1; `agent` the class of the program; `options` are those of OpenAI()."""
    return cast("OpenAI", _made("openai", "OpenAI", {"base_url": base_url, **options},
                                Transport(program, agent)))


def async_openai(program: str, *, base_url: str, agent: str = "", **options: Any) -> AsyncOpenAI:
    """The same with AsyncOpenAI."""
    return cast("AsyncOpenAI", _made("openai", "AsyncOpenAI", {"base_url": base_url, **options},
                                     AsyncTransport(program, agent)))


def anthropic(program: str, *, base_url: str, agent: str = "", **options: Any) -> Anthropic:
    """The same with Anthropic(), whose `base_url` has no /v1."""
    return cast("Anthropic", _made("anthropic", "Anthropic", {"base_url": base_url, **options},
                                   Transport(program, agent)))


def async_anthropic(program: str, *, base_url: str, agent: str = "",
                    **options: Any) -> AsyncAnthropic:
    """The same with AsyncAnthropic()."""
    return cast("AsyncAnthropic", _made("anthropic", "AsyncAnthropic",
                                        {"base_url": base_url, **options},
                                        AsyncTransport(program, agent)))


def in_program(client: C, program: str, *, agent: str = "") -> C:
    """A copy of a client of these packages, of either kind: its key, base URL and all else, with
    HTTP connections of its own, and requests that are of this program."""
    package = importlib.import_module(type(client).__module__.partition(".")[0])
    is_async = isinstance(client, (getattr(package, "AsyncOpenAI", ()),
                                   getattr(package, "AsyncAnthropic", ())))
    transport = AsyncTransport(program, agent) if is_async else Transport(program, agent)
    return cast(C, cast(Any, client).with_options(http_client=_http_client(package, transport)))


def _made(package: str, name: str, options: Any, transport: Any) -> Any:
    """A client by the name of its class."""
    module = importlib.import_module(package)
    return getattr(module, name)(**{"api_key": NO_KEY, **options,
                                    "http_client": _http_client(module, transport)})


def _http_client(package: Any, transport: Any) -> Any:
    """With the package's own timeouts."""
    kind = "DefaultAsyncHttpxClient" if isinstance(transport, AsyncTransport) else \
        "DefaultHttpxClient"
    return getattr(package, kind)(transport=transport)
