/* SPDX-License-Identifier: MIT */
/*
 * What: a vocabulary of a few words, read by the appliance's own reader; and the text of a call as
 * docs/protocol.md defines it, by the simplest means: the bytes of all tokens in a row, cut before
 * the first complete stop string, with what is not UTF-8 replaced. Of a call that came to an early
 * end, what may have become a stop string or a character is cut off.
 *
 * The words overlap, and two tokens have one byte each, so that stop strings and characters begin
 * and end anywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "config/vocab/vocab.h"
#include "net/utf8.h"
#include "selftest/fake/gguf_file.h"
#include "selftest/sim/sim.h"

#define SCRATCH_BYTES (64u << 10)

static const char *const pieces[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "ba", "<0xC3>",
                                     "<0xA9>", "c", "aab", "\342\226\201a"};
static const char *const texts[] = {"", "", "", "a", "b", "ab", "ba", "\xC3",
                                    "\xA9", "c", "aab", " a"};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

static const char *const stops[] = {"ab", "ba", "aba", "bb", "ca", "\xC3\xA9", " a", "aabab"};
enum { STOPS = sizeof stops / sizeof stops[0] };

static void write_file(struct gguf_file *file)
{
    static const float scores[PIECES] = {0, 0, 0, -2, -3, -1, -4, 0, 0, -5, -6, -7};
    static const int32_t types[PIECES] = {2, 3, 3, 1, 1, 1, 1, 6, 6, 1, 1, 1};
    gguf_file_begin(file);
    gguf_file_text(file, "general.architecture", "llama");
    gguf_file_text(file, "tokenizer.ggml.model", "llama");
    gguf_file_texts(file, "tokenizer.ggml.tokens", pieces, PIECES);
    gguf_file_f32s(file, "tokenizer.ggml.scores", scores, PIECES);
    gguf_file_i32s(file, "tokenizer.ggml.token_type", types, PIECES);
    gguf_file_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_file_u32(file, "tokenizer.ggml.eos_token_id", 2);
    gguf_file_end(file, 0);
}

const struct vocab *sim_words(void)
{
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[64u << 10];
    static struct gguf_file file;
    static struct gguf gguf;
    static struct vocab vocab;
    struct gguf_source source;
    struct arena arena;
    struct config_error error = {.text = ""};
    if (vocab.info.kind != VOCAB_NONE) {
        return &vocab;
    }
    write_file(&file);
    gguf_source_memory(&source, file.bytes, file.count, "words");
    arena_init(&arena, memory, sizeof memory);
    if (gguf_scan(&gguf, &source, sizeof file.bytes, &error) != STATUS_OK ||
        vocab_load(&vocab, &gguf, &source, &arena, &error) != STATUS_OK) {
        fprintf(stderr, "agentix-sim: %s\n", error.text);
        exit(1);
    }
    ASSERT(vocab.info.kind == VOCAB_SPM && vocab.info.tokens == PIECES);
    return &vocab;
}

void sim_words_prompt(struct sim *sim, struct sim_call *call)
{
    static _Alignas(8) uint8_t memory[SCRATCH_BYTES];
    struct vocab_scratch scratch;
    uint32_t most = sim->limits.context_tokens - 2;     /* without BOS and one generated token */
    most = most < SIM_PROMPT_BYTES ? most : SIM_PROMPT_BYTES;
    call->prompt_text_bytes = sim_between(sim, 0, most);
    for (uint32_t i = 0; i < call->prompt_text_bytes; i++) {
        call->prompt_text[i] = "ab c"[sim_choose(sim, 4)];
    }
    ASSERT(vocab_scratch_bytes(SIM_PROMPT_BYTES) <= sizeof memory);
    vocab_scratch_init(&scratch, memory, SIM_PROMPT_BYTES);
    call->tokens[0] = sim_words()->info.bos_id;
    struct vocab_output output = {.tokens = call->tokens + 1, .max = SIM_CONTEXT_MAX - 1};
    const struct vocab_input input = {.text = call->prompt_text, .bytes = call->prompt_text_bytes};
    enum status status = vocab_encode(sim_words(), &scratch, &input, &output);
    SIM_REQUIRE(sim, status == STATUS_OK, INVARIANT_WORLD, "a prompt of %u bytes cannot be encoded",
                call->prompt_text_bytes);
    call->is_text = 1 + output.count < sim->limits.context_tokens;
    call->prompt_tokens = 1 + output.count;
}

void sim_words_stops(struct sim *sim, struct sim_call *call)
{
    call->stops_count = sim_choose(sim, 3);
    for (uint32_t i = 0; i < call->stops_count; i++) {
        call->stops[i] = stops[sim_choose(sim, STOPS)];
    }
}

/* ---- the text -------------------------------------------------------------------------------- */

static uint32_t append(char *bytes, uint32_t count, const char *more)
{
    size_t length = strlen(more);
    ASSERT(count + length < SIM_TEXT_BYTES);
    memcpy(bytes + count, more, length);
    return count + (uint32_t)length;
}

/* Writes the bytes of the first `tokens`. An answer to BOS alone loses its first blank, as in
 * SentencePiece. */
static uint32_t bytes_of(const struct sim_call *call, uint32_t tokens, char *bytes)
{
    uint32_t count = 0;
    bool drops_blank = call->prompt_tokens == 1 && call->tokens[0] == sim_words()->info.bos_id;
    for (uint32_t i = 0; i < tokens; i++) {
        const char *text = texts[call->tokens[call->prompt_tokens + i]];
        count = append(bytes, count, text + (i == 0 && drops_blank && text[0] == ' '));
    }
    return count;
}

/* Where the first complete stop string begins, or UINT32_MAX. */
static uint32_t find_stop(const struct sim_call *call, const char *bytes, uint32_t count)
{
    for (uint32_t end = 1; end <= count; end++) {
        uint32_t longest = 0;
        for (uint32_t i = 0; i < call->stops_count; i++) {
            uint32_t length = (uint32_t)strlen(call->stops[i]);
            if (length <= end && length > longest &&
                memcmp(bytes + end - length, call->stops[i], length) == 0) {
                longest = length;
            }
        }
        if (longest > 0) {
            return end - longest;
        }
    }
    return UINT32_MAX;
}

uint32_t sim_words_stop_tokens(const struct sim_call *call)
{
    char bytes[SIM_TEXT_BYTES];
    for (uint32_t tokens = 1; tokens <= call->expected && call->stops_count > 0; tokens++) {
        if (find_stop(call, bytes, bytes_of(call, tokens, bytes)) != UINT32_MAX) {
            return tokens;
        }
    }
    return 0;
}

/* How many bytes at the end may become a stop string. */
static uint32_t count_waiting(const struct sim_call *call, const char *bytes, uint32_t count)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < call->stops_count; i++) {
        uint32_t part = (uint32_t)strlen(call->stops[i]) - 1;
        part = part < count ? part : count;
        while (part > 0 && memcmp(bytes + count - part, call->stops[i], part) != 0) {
            part--;
        }
        longest = part > longest ? part : longest;
    }
    return longest;
}

/* What is not UTF-8 becomes a replacement; not is_whole: without what may become a character. */
static uint32_t replace(const char *bytes, uint32_t count, bool is_whole, char *text)
{
    uint32_t written = 0;
    for (uint32_t at = 0; at < count;) {
        int32_t length = utf8_sequence(bytes + at, count - at);
        if (length > 0) {
            memcpy(text + written, bytes + at, (uint32_t)length);
            written += (uint32_t)length;
            at += (uint32_t)length;
            continue;
        }
        if (length == 0 && !is_whole) {
            break;
        }
        memcpy(text + written, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        written += UTF8_REPLACEMENT_BYTES;
        at = length < 0 ? at + (uint32_t)-length : count;
    }
    return written;
}

uint32_t sim_words_text(const struct sim_call *call, uint32_t tokens, bool is_whole, char *text)
{
    char bytes[SIM_TEXT_BYTES];
    uint32_t count = bytes_of(call, tokens, bytes);
    uint32_t stop = find_stop(call, bytes, count);
    count = stop < count ? stop : is_whole ? count : count - count_waiting(call, bytes, count);
    return replace(bytes, count, is_whole, text);
}

/* ---- values of workflows --------------------------------------------------------------------- */

uint32_t sim_words_encode(const char *text, uint32_t bytes, bool begins, uint32_t *tokens,
                          uint32_t max)
{
    static _Alignas(8) uint8_t memory[SCRATCH_BYTES];
    struct vocab_scratch scratch;
    struct vocab_output output = {.tokens = tokens, .max = max};
    const struct vocab_input input = {.text = text, .bytes = bytes, .no_space_prefix = !begins};
    ASSERT(vocab_scratch_bytes(SIM_JOINED_BYTES) <= sizeof memory);
    vocab_scratch_init(&scratch, memory, SIM_JOINED_BYTES);
    enum status status = vocab_encode(sim_words(), &scratch, &input, &output);
    ASSERT(status == STATUS_OK);
    return output.count;
}

/* Writes the bytes of the tokens, unreplaced. */
static uint32_t raw_of(const uint32_t *tokens, uint32_t count, bool drops_blank, char *bytes)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = texts[tokens[i]];
        text += i == 0 && drops_blank && text[0] == ' ';
        ASSERT(written + strlen(text) <= SIM_VALUE_TEXT_BYTES);
        memcpy(bytes + written, text, strlen(text));
        written += (uint32_t)strlen(text);
    }
    return written;
}

uint32_t sim_words_before_stop(const uint32_t *tokens, uint32_t count, bool drops_blank,
                               const char *stop)
{
    char bytes[SIM_VALUE_TEXT_BYTES];
    uint32_t length = (uint32_t)strlen(stop), before = 0;
    uint32_t total = raw_of(tokens, count, drops_blank, bytes);
    for (uint32_t at = 0; at + length <= total; at++) {
        if (memcmp(bytes + at, stop, length) == 0) {
            while (before < count && raw_of(tokens, before + 1, drops_blank, bytes) <= at) {
                before++;
            }
            return before;
        }
    }
    return UINT32_MAX;
}

uint32_t sim_words_spell(const uint32_t *tokens, uint32_t count, char *text)
{
    char bytes[SIM_VALUE_TEXT_BYTES];
    return replace(bytes, raw_of(tokens, count, false, bytes), true, text);
}

const char *sim_words_stop(uint32_t index)
{
    return stops[index % STOPS];
}
