# SPDX-License-Identifier: MIT
"""Client of the Agentix appliance: calls, programs of calls, and workflows. docs/python.md is its
page."""
from agentix.call import Call, Drafts, Reply, Stream
from agentix.chat import Format, Markup, Prompt
from agentix.client import Client
from agentix.connect import Connecting, connect
from agentix.connection import read_key
from agentix.errors import Error, Failed, Lost, ProtocolError, Refused
from agentix.flow import Flow, Node
from agentix.http import AsyncTransport, Transport, headers
from agentix.program import Program, Totals
from agentix.row import Row
from agentix.run import Run
from agentix.sampling import Sampling
from agentix.sync import SyncClient, SyncProgram, SyncStream
from agentix.threads import thread
from agentix.vendors import anthropic, async_anthropic, async_openai, in_program, openai

__version__ = "1.1"
__all__ = [
    # Calls, and what can go wrong.
    "Call", "Client", "Connecting", "Drafts", "Program", "Reply", "Sampling", "Stream",
    "SyncClient", "SyncProgram", "SyncStream", "Totals", "connect", "read_key",
    "Error", "Failed", "Lost", "ProtocolError", "Refused",
    # Conversations and workflows.
    "Flow", "Format", "Markup", "Node", "Prompt", "Row", "Run",
    # Programs of other clients, over HTTP.
    "AsyncTransport", "Transport", "anthropic", "async_anthropic", "async_openai", "headers",
    "in_program", "openai", "thread"]
