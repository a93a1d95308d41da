# SPDX-License-Identifier: MIT
"""The embedded model is an ordinary GGUF file: llama.cpp reads it and gives the same tokens. The
same holds for random models of each family.

LLAMA_CPP names the binary; tools/bench/llamacpp.cpp is its source and says how to build it.
"""
import json
import os
import subprocess

import models
from appliance import EMBEDDED_MODEL, HANG_S, Appliance, run
from protocol import Client
from skip import Skip

PROMPTS, TOKENS = 50, 64


def the_program():
    program = os.environ.get("LLAMA_CPP")
    if not program:
        raise Skip("needs llama.cpp: LLAMA_CPP names a program of tools/bench/llamacpp.cpp")
    return program


def greedy(program, model, prompts, tokens):
    """llama.cpp's answers to lists of ids."""
    done = subprocess.run([program, model, "greedy", str(tokens)], text=True,
                          input="".join(json.dumps(ids) + "\n" for ids in prompts),
                          capture_output=True, timeout=HANG_S * 10)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids_of(text):
    done = run("agx", "tokenize", "--vocab", EMBEDDED_MODEL, "--", text)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_llama_cpp_gives_the_same_tokens():
    program = the_program()
    with Appliance() as a, Client(a.tcp) as c:
        texts = models.held_out_prompts(PROMPTS)
        prompts = [[c.welcome["bos_id"]] + ids_of(text) for text in texts]
        for call_id, ids in enumerate(prompts):
            c.start(call_id, ids, max_tokens=TOKENS, flags=0)
        ours = [c.finish(call_id).check().tokens for call_id in range(PROMPTS)]
    theirs = greedy(program, EMBEDDED_MODEL, prompts, TOKENS)
    differ = [i for i in range(PROMPTS) if ours[i] != theirs[i]]
    print("  llama.cpp: %d of %d prompts, %d tokens, the same" % (
        PROMPTS - len(differ), PROMPTS, sum(map(len, ours))))
    assert not differ, [(prompts[i], ours[i], theirs[i]) for i in differ[:2]]


def check_family(program, *arguments):
    prompts = models.draw_prompts(1)
    with models.model(*arguments) as path:
        theirs = greedy(program, path, prompts, models.TOKENS)
        ours = models.answers(path, prompts)
    assert ours == theirs, (arguments, ours, theirs)


def test_llama_cpp_gives_the_same_tokens_for_each_family():
    program = the_program()
    for family in models.FAMILIES:
        check_family(program, family)
        check_family(program, family, "--rope", "linear")
    check_family(program, "llama", "--rope", "llama3")
