# SPDX-License-Identifier: MIT
"""`agx chat` and `agx generate --chat` against the real appliance, on a terminal and off it."""
import re

from appliance import NOISE, Appliance, run, wait_for
from protocol import CHAT, CHAT_ASK, PARSE_SPECIAL, Client, frame, pack, unpack
from terminal import Terminal

USAGE, REFUSED = 2, 4
PROMPT = "\r\n> "
# A vocabulary in which "</s>" is a token, and a context that some turns fill.
SMALL = "limits.context_tokens=256"


def chat(a, words, *arguments):
    return run("agx", "--to", a.to, "chat", *arguments, input=words)


def said(a, words):
    done = chat(a, words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# ---- off a terminal ------------------------------------------------------------------------------

def test_a_file_of_questions_gets_an_answer_each():
    with Appliance() as a:
        lines = said(a, "Hello\nWhat do bees make?\n")
        assert len(lines) == 2 and all(lines), lines
        assert said(a, "Hello\nWhat do bees make?") == lines        # the last line may be cut
        assert said(a, "\n\nHello\n") == lines[:1]                  # empty lines ask nothing
        assert said(a, "") == []


def test_the_conversation_is_one_program_and_its_kv_is_found_again():
    with Appliance() as a:
        before = a.stats()
        done = chat(a, "Hello\nWhat do bees make?\n/stats\nHello\n/stats\n")
        assert done.returncode == 0, done.stderr
        cached = [int(each) for each in re.findall(r"of which (\d+) were cached", done.stdout)]
        assert len(cached) == 2 and 0 < cached[0] < cached[1], done.stdout
        after = a.stats()
        assert after["programs_started"] - before["programs_started"] == 1
        assert after["programs_open"] == 0


def test_a_long_conversation_drops_its_oldest_turns_and_says_so():
    with Appliance(SMALL) as a:
        done = chat(a, "What do bees make?\n" * 30)
        assert done.returncode == 0, done.stderr
        assert "the oldest turn was dropped" in done.stderr
        assert len(done.stdout.splitlines()) == 30
        done = chat(a, "bees " * 300 + "\nHello\n")
        assert done.returncode == REFUSED and "does not fit" in done.stderr, done.stderr
        assert len(done.stdout.splitlines()) == 1                   # the chat went on


def test_commands_and_bad_lines_are_answered_and_the_chat_goes_on():
    with Appliance() as a:
        done = chat(a, "/system Be brief.\n/help\n/stats\n/clear\nHello\n/quit\nnever\n")
        assert done.returncode == 0 and "/clear" in done.stdout, done.stderr
        assert "no answer yet" in done.stdout and "never" not in done.stdout
        assert len(done.stdout.splitlines()[-1]) > 0
        done = chat(a, "/nonsense\nHello\n")
        assert done.returncode == USAGE and "no such command" in done.stderr
        assert len(done.stdout.splitlines()) == 1
        bad = run("agx", "--to", a.to, "chat", input="\udcff\udcfe\nHello\n",
                  encoding="utf-8", errors="surrogateescape")
        assert bad.returncode == USAGE and "not UTF-8" in bad.stderr
        assert len(bad.stdout.splitlines()) == 1


def test_format_is_the_models_or_the_one_that_is_named():
    with Appliance() as a:
        assert chat(a, "Hello\n", "--format", "qwen3", "--max-tokens", "4").returncode == 0
        done = chat(a, "Hello\n", "--format", "nonsense")
        assert done.returncode == USAGE and "there is no chat format" in done.stderr
        # This format has turns, and a system message has no place in it.
        done = chat(a, "Hello\n", "--format", "mistral-0.2", "--system", "Be kind.")
        assert done.returncode == USAGE and "no place for that system message" in done.stderr


# ---- on a terminal -------------------------------------------------------------------------------

def test_a_person_talks_and_ends_with_ctrl_d():
    with Appliance() as a, Terminal("agx", "--to", a.to, "chat") as t:
        assert "format plain" in t.until("> ")
        t.type("Hello\r")
        answer = t.until(PROMPT)
        assert len(answer.split("\r\n")) > 2 and answer.split("\r\n")[1], answer
        t.type("\u4f60\u597d \U0001f41d na\u00efve?\r")         # wide characters, as they are
        assert "\u4f60\u597d \U0001f41d na\u00efve?" in t.until(PROMPT)
        t.type("What do bees \\\rmake?\r")                      # one question in two lines
        t.until(PROMPT)
        t.type("/stats\r")
        assert "3 turns so far" in t.until(PROMPT)
        t.type("\x04")
        assert t.wait() == 0, t.output


def test_ctrl_c_stops_the_answer_and_not_the_chat():
    with Appliance(NOISE) as a, Terminal("agx", "--to", a.to, "chat") as t:
        t.until("> ")
        with a.standing_still():                                # the answer cannot end by itself
            t.type("Hello\r")
            a.wait_stats(calls_open=1)
            frames = a.stats()["frames_received"]
            t.type("\x03")
            wait_for(lambda: a.stats()["frames_received"] > frames, "a CANCEL")
        assert "stopped" in t.until(PROMPT)
        a.wait_stats(calls_open=0)
        t.type("\x03")                                          # at the prompt: a hint
        assert "Ctrl-D ends" in t.until(PROMPT)
        t.type("/stats\r")
        assert "cancelled" in t.until(PROMPT)
        t.type("\x04")
        assert t.wait() == 0, t.output


def test_nothing_that_a_model_says_moves_the_cursor():
    with Appliance(NOISE) as a, Terminal("agx", "--to", a.to, "chat", "--max-tokens", "400") as t:
        t.until("> ")
        t.type("Hello\r")
        answer = t.until(PROMPT)
        own = answer.replace("\x1b[2m", "").replace("\x1b[0m", "")     # the chat's own
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]", own), own
        t.type("\x04")
        assert t.wait() == 0


# ---- generate ------------------------------------------------------------------------------------

def test_generate_puts_the_prompt_into_the_format():
    with Appliance() as a:
        asked = run("agx", "--to", a.to, "generate", "--chat", "--prompt", "Hello", "--stats")
        same = run("agx", "--to", a.to, "generate", "--prompt", "User: Hello\nBot:", "--stop",
                   "\nUser:")
        assert asked.returncode == same.returncode == 0, asked.stderr
        assert asked.stdout == same.stdout
        assert re.search(r" ttft_us=\d+ between_us_mean=\d+ between_us_p99=\d+ "
                         r"tokens_per_s=[\d.]+$", asked.stderr.strip())
        assert run("agx", "--to", a.to, "generate", "--chat", "--ids", "5").returncode == USAGE


def test_generate_parses_special_tokens_only_when_asked():
    def prompt_tokens(*arguments):
        done = run("agx", "--to", a.to, "generate", "--prompt", "</s>", "--no-bos", "--max-tokens",
                   "1", "--stats", *arguments)
        return int(re.search(r"prompt=(\d+)", done.stderr).group(1))
    with Appliance() as a:
        assert prompt_tokens("--special") == 1 < prompt_tokens()


# ---- the protocol --------------------------------------------------------------------------------

def test_chat_is_told_to_any_client():
    with Appliance() as a, Client(a.tcp) as c:
        c.send(frame(CHAT_ASK, pack(CHAT_ASK, nonce=9)))
        kind, payload = c.receive()
        values, _ = unpack(CHAT, payload)
        assert kind == CHAT and values["nonce"] == 9 and values["verdict"] == 0
        assert values["format"].rstrip(b"\0") == b"plain"
        assert values["bos"].rstrip(b"\0") == b"<s>" and values["eos"].rstrip(b"\0") == b"</s>"


def test_quoted_parts_of_a_prompt_have_no_special_tokens():
    with Appliance() as a, Client(a.tcp) as c:
        text = b"</s></s>"
        whole = c.generate(1, text, flags=PARSE_SPECIAL, max_tokens=1)
        half = c.generate(2, text, flags=PARSE_SPECIAL, max_tokens=1, part_lengths=[4, 4])
        none = c.generate(3, text, flags=PARSE_SPECIAL, max_tokens=1, part_lengths=[0, 8])
        plain = c.generate(4, text, flags=0, max_tokens=1)
        counts = [each.check().done["prompt_tokens"] for each in (whole, half, none, plain)]
        assert counts[0] == 2 < counts[1] < counts[2] == counts[3], counts
