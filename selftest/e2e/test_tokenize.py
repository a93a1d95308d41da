# SPDX-License-Identifier: MIT
"""`agx tokenize`: exact bytes in, ids out, without an appliance."""
import tempfile

from appliance import EMBEDDED_MODEL, RANDOM_MODEL, run
from skip import long, shared

FIRST_BYTE = 3                      # of the byte tokens, in both models
DIGITS = [b"%d" % digit for digit in range(10)]
SEPARATOR = b"\n__ggml_vocab_test__\n"


def ids_of(vocab, content, *flags):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        done = run("agx", "tokenize", "--vocab", vocab, "--file", file.name, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n") and done.stdout.count("\n") == 1, done.stdout
    return [int(word) for word in done.stdout.split()]


def test_file_and_argument_give_the_same_ids():
    done = run("agx", "tokenize", "--vocab", RANDOM_MODEL, "the weather")
    assert done.returncode == 0, done.stderr
    assert [int(word) for word in done.stdout.split()] == ids_of(RANDOM_MODEL, b"the weather")


def test_bytes_are_not_changed():
    assert ids_of(RANDOM_MODEL, b"") == []
    assert ids_of(RANDOM_MODEL, b"a\n") == ids_of(RANDOM_MODEL, b"a") + [FIRST_BYTE + 10]
    assert ids_of(RANDOM_MODEL, b"a\0\xff")[-2:] == [FIRST_BYTE, FIRST_BYTE + 255]
    long = ids_of(RANDOM_MODEL, b"\n" * 300000)
    assert long[-300000:] == [FIRST_BYTE + 10] * 300000


def test_the_embedded_vocabulary_has_a_token_for_each_digit_and_every_byte():
    model = EMBEDDED_MODEL
    digits = [ids_of(model, b"0" + digit)[-1] for digit in DIGITS]
    assert ids_of(model, b"0123456789")[-10:] == digits
    assert ids_of(model, b"0\0\xff")[-2:] == [FIRST_BYTE, FIRST_BYTE + 255]


def test_special_tokens_are_plain_text_and_there_is_no_bos():
    for text in (b"<s>", b"</s>", b"a<s>b", b"<unk>"):
        ids = ids_of(RANDOM_MODEL, text)
        assert min(ids) > 2, ids


def test_bos_and_special_tokens_are_there_when_asked_for():
    plain = ids_of(RANDOM_MODEL, b"the weather")
    assert ids_of(RANDOM_MODEL, b"the weather", "--bos") == [1] + plain
    assert ids_of(RANDOM_MODEL, b"", "--bos") == [1]
    assert 2 in ids_of(RANDOM_MODEL, b"a</s>b", "--special")
    assert ids_of(RANDOM_MODEL, b"<s>", "--special", "--bos")[:1] == [1]


@long
def test_published_vocabularies_give_the_expected_ids():
    for name in ("ggml-vocab-llama-spm", "vocab-llama-bpe", "vocab-qwen2", "ggml-vocab-gpt-2",
                 "ggml-vocab-deepseek-coder", "ggml-vocab-falcon"):
        vocab = shared("vocab/%s.gguf" % name)
        with open(vocab + ".inp", "rb") as file:
            texts = file.read().split(SEPARATOR)
        with open(vocab + ".out") as file:
            answers = [[int(word) for word in line.split()] for line in file]
        assert len(answers) == 46
        for text, answer in zip(texts, answers):
            assert ids_of(vocab, text) == answer, (name, text)


def test_bad_files_and_command_lines_are_refused():
    for arguments, status, words in (
            (("--vocab", "/no/such.gguf", "x"), 1, "/no/such.gguf: cannot be opened: No such file"),
            (("--vocab", "/dev/null", "x"), 1, "is not a regular file"),
            (("--vocab", RANDOM_MODEL, "--file", "/no/such"), 1, "/no/such: cannot be read"),
            (("--vocab", RANDOM_MODEL), 2, "either --file or TEXT is expected"),
            (("--vocab", RANDOM_MODEL, "x", "--file", "y"), 2, "either --file or TEXT is expected"),
            (("--vocab", RANDOM_MODEL, "x", "y"), 2, "one word too many"),
            (("x",), 2, "--vocab is missing"),
            (("--vocab",), 2, "--vocab: MODEL.gguf is missing"),
            (("--vocab", RANDOM_MODEL, "--eos", "x"), 2, "--eos: no such option")):
        done = run("agx", "tokenize", *arguments)
        assert done.returncode == status, (arguments, done.returncode, done.stderr)
        assert words in done.stderr, done.stderr
        assert done.stdout == ""
    assert run("agx", "tokenize", "--vocab", RANDOM_MODEL, "--", "--bos").returncode == 0
    assert "usage" in run("agx", "tokenize", "--help").stdout
