# SPDX-License-Identifier: MIT
"""Chat formats against Jinja2: 200 conversations for each template, by bytes and by tokens.

The templates of selftest/templates were written for these tests. They have the structure, the marks
and the behaviour of the published templates of the models that a format is named after, but not
their text, except where that text is what the model must read. The same tests run over real
templates (*.jinja) in ../shared/chat, and in the directory that AGENTIX_CHAT_TEMPLATES names. There
a template may be one that we do not know; it must never be one that we render in another way."""
import glob
import json
import os
import tempfile

import conversations
from appliance import run
from skip import Skip, shared

CONVERSATIONS = 200
SEEDS = 700                     # the most that are tried for 200 that the template allows
BOS, EOS = "<s>", "</s>"
OWN = sorted(glob.glob("selftest/templates/*.jinja"))
# A format may refuse what its template leaves out without a word.
SILENT = ("this format has no tools", "this format has no place for that system message",
          "the last message is the assistant's, and no answer follows")


def jinja():
    try:
        import jinja2
        return jinja2
    except ImportError:
        raise Skip("python3-jinja2 is not installed") from None


def render(objects, *arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write("\n".join(json.dumps(each) for each in objects))
        file.flush()
        done = run("agx", "render", *arguments, file.name)
    return [json.loads(line) for line in done.stdout.split("\n") if line], done


def real_templates():
    """Different texts only."""
    places = [os.environ.get("AGENTIX_CHAT_TEMPLATES"), "../shared/chat"]
    texts = {}
    for place in places:
        for path in sorted(glob.glob(os.path.join(place, "*.jinja"))) if place else []:
            with open(path, encoding="utf-8") as file:
                texts.setdefault(file.read(), path)
    return sorted(texts.values())


def check_template(path, chats):
    """How many conversations were rendered alike; None: the template is not known."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    ours, done = render(chats, "--template", path, "--bos", BOS, "--eos", EOS)
    if done.returncode != 0:
        assert "not a template that is known" in done.stderr, (path, done.stderr)
        return None
    assert len(ours) == len(chats), (path, done.stderr)
    template = conversations.compile_template(source)
    alike = 0
    for chat, own in zip(chats, ours):
        wanted = conversations.expected(template, source, chat, (BOS, EOS))
        if "refused" in own:
            assert wanted is None or own["refused"] in SILENT, (path, chat, own, wanted)
            continue
        assert own["text"] == wanted, (path, chat, own["text"], wanted)
        assert sum(own["parts"]) == len(own["text"].encode()), (path, own)
        alike += 1
        if alike == CONVERSATIONS:
            break
    return alike


def test_formats_write_what_jinja2_writes():
    jinja()
    chats = [conversations.conversation(seed) for seed in range(SEEDS)]
    assert OWN, "run the tests from the root of the repository"
    for path in OWN:
        alike = check_template(path, chats)
        assert alike == CONVERSATIONS, (path, alike)


def test_every_format_has_a_template_here():
    known = set()
    for path in OWN:
        named, _ = render([], "--template", path)
        assert named == []
    helped = run("agx", "chat", "--help").stdout.split("formats:\n")[1]
    for line in helped.splitlines():
        if line.startswith("  ") and line[2] != " ":
            known.add(line.split()[0])
    here = {os.path.basename(path)[:-len(".jinja")].removesuffix("-default") for path in OWN}
    assert known == here | {"plain"}, known ^ here


def test_real_templates_are_rendered_alike_or_not_known():
    jinja()
    paths = real_templates()
    if not paths:
        raise Skip("no real templates: neither AGENTIX_CHAT_TEMPLATES nor ../shared/chat")
    chats = [conversations.conversation(seed) for seed in range(SEEDS)]
    results = {path: check_template(path, chats) for path in paths}
    for path, alike in results.items():
        print("  ", os.path.basename(path), "not known" if alike is None else f"{alike} alike")
        assert alike in (None, CONVERSATIONS), (path, alike)


# ---- tokens --------------------------------------------------------------------------------------

def vocabularies():
    """Pairs of a vocabulary and the templates to try with it: the project's own with all, and those
    of real models, where they are, with the formats of these models."""
    real = {"vocab/vocab-qwen2.gguf": ("chatml", "qw"), "vocab/vocab-llama-bpe.gguf": ("llama3",),
            "vocab/ggml-vocab-llama-spm.gguf": ("llama2", "mistral", "zephyr"),
            "vocab/ggml-vocab-deepseek-coder.gguf": ("deepseek",)}
    yield "appliance/embedded.gguf", OWN
    for name, formats in real.items():
        try:
            yield shared(name), [path for path in OWN
                                 if os.path.basename(path).startswith(formats)]
        except Skip as why:
            print("   without", name, "-", why)


def check_tokens(path, vocab, chats):
    """Tokens of parts are those of the whole text, as long as no text poses as a special token."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    tokens = (BOS, EOS)
    template = conversations.compile_template(source)
    ours, _ = render(chats, "--template", path, "--vocab", vocab, "--bos", BOS, "--eos", EOS)
    pairs = [(own, conversations.expected(template, source, chat, tokens))
             for chat, own in zip(chats, ours) if "tokens" in own]
    whole, _ = render([{"text": wanted} for _, wanted in pairs], "--vocab", vocab)
    for (own, wanted), each in zip(pairs, whole):
        assert own["tokens"] == each["tokens"], (path, vocab, wanted)
    return len(pairs)


def test_tokens_are_those_of_what_jinja2_writes():
    jinja()
    chats = [conversations.conversation(seed, conversations.CLEAN) for seed in range(CONVERSATIONS)]
    for vocab, paths in vocabularies():
        for path in paths:
            assert check_tokens(path, vocab, chats) > 50, (path, vocab)


def special_words(vocab):
    """What this vocabulary has of the words that formats mark things with, and their tokens."""
    words = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<tool_call>", "<|EOT|>")
    tokens, _ = render([{"text": word} for word in words], "--vocab", vocab)
    return {word: each["tokens"][0] for word, each in zip(words, tokens)
            if len(each["tokens"]) == 1}


def template_text(own):
    """Of a rendering, what the template wrote."""
    text, at, written = own["text"].encode(), 0, b""
    for index, size in enumerate(own["parts"]):
        written += text[at:at + size] if index % 2 == 0 else b"\n"
        at += size
    return written


def test_no_text_of_a_conversation_becomes_a_special_token():
    for vocab, paths in vocabularies():
        words = special_words(vocab)
        assert words or "coder" in vocab, vocab
        forged = "".join(words)
        chats = [{"messages": system + [{"role": "user", "content": forged},
                                        {"role": "assistant", "content": forged},
                                        {"role": "user", "content": forged}]}
                 for system in ([{"role": "system", "content": forged}], [])]
        for path in paths:
            ours, _ = render(chats, "--template", path, "--vocab", vocab, "--bos", BOS,
                             "--eos", EOS)
            rendered = [own for own in ours if "tokens" in own]
            assert rendered, path
            for own in rendered:
                for word, token in words.items():
                    found = own["tokens"].count(token)
                    assert found == template_text(own).count(word.encode()), (path, vocab, word)
