# SPDX-License-Identifier: MIT
"""Client of the Agentix appliance: calls, and workflows of calls. docs/python.md is its page."""
from agentix.call import Call, Reply
from agentix.chat import Format, Markup, Prompt
from agentix.client import Client, connect
from agentix.connection import read_key
from agentix.errors import Error, Failed, Lost, ProtocolError, Refused
from agentix.flow import Flow, Node
from agentix.run import Row, Run
from agentix.sampling import Sampling

__all__ = ["Call", "Client", "Error", "Failed", "Flow", "Format", "Lost", "Markup", "Node",
           "Prompt", "ProtocolError", "Refused", "Reply", "Row", "Run", "Sampling", "connect",
           "read_key"]
