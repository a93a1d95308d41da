// SPDX-License-Identifier: MIT
// What: llama.cpp asked what our own programs are asked, for comparison.
//
//     llamacpp MODEL.gguf score [THREADS [FILE]]    as bench-scores score, --expect FILE
//     llamacpp MODEL.gguf greedy N [THREADS]    as bench-scores greedy, but an end-of-generation id is
//                                               the last one (selftest/e2e/test_llamacpp.py)
//     llamacpp MODEL.gguf mixed [THREADS]       tokens/s of what bench calls mixed
//     llamacpp MODEL.gguf context N [THREADS]   tokens/s of one call that has N tokens, as bench-context
//                                               with --blank: they are not computed as one prompt
//
// Lines of standard input and their answers are those of tools/bench/scores.c. For score and greedy
// keys and values are F32 and attention is the plain one, as ours are; mixed runs as llama.cpp comes,
// context with flash attention.
//
// Build, with LLAMA a checkout of llama.cpp and BUILD its static build without a GPU; for
// ik_llama.cpp, whose interface is older, add -DIK_LLAMA:
//
//     g++ -O2 -std=c++17 -fopenmp -I$LLAMA/include -I$LLAMA/ggml/include
//         tools/bench/llamacpp.cpp -o llamacpp $BUILD/src/libllama.a
//         $BUILD/ggml/src/libggml.a $BUILD/ggml/src/libggml-cpu.a $BUILD/ggml/src/libggml-base.a
//         -lpthread -ldl
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "llama.h"

using Ids = std::vector<llama_token>;

static const int SEQUENCES = 32, BATCH_TOKENS = 512;
// Of mixed: as in tools/bench/bench.c.
static const int CALLS = 16, PROMPT_TOKENS = 16, DECODE_TOKENS = 64, PLAN_STEPS = 8, CHUNK = 64;
static const int FILL = 16;                 // of context: tokens that see each other and no other
#ifdef IK_LLAMA
static const size_t COPIED = 4096;
#endif

[[noreturn]] static void fail(const char *text)
{
    std::fprintf(stderr, "llamacpp: %s\n", text);
    std::exit(1);
}

static void forget(llama_context *context)
{
#ifdef IK_LLAMA
    llama_kv_cache_clear(context);
#else
    llama_memory_clear(llama_get_memory(context), true);
#endif
}

static llama_context *start(llama_model *model, int threads, int sequences, int tokens)
{
    llama_context_params params = llama_context_default_params();
    params.n_seq_max = (uint32_t)sequences;
    params.n_ctx = (uint32_t)(sequences * ((tokens + 255) / 256 * 256));
    params.n_batch = params.n_ubatch = (uint32_t)BATCH_TOKENS;
    params.n_threads = params.n_threads_batch = threads;
    params.type_k = params.type_v = GGML_TYPE_F32;
#ifdef IK_LLAMA
    params.flash_attn = false;
#else
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
#endif
    llama_context *context = llama_init_from_model(model, params);
    if (context == nullptr) {
        fail("no context");
    }
    return context;
}

struct Batch {
    llama_batch batch = llama_batch_init(BATCH_TOKENS, 0, 1);
    ~Batch() { llama_batch_free(batch); }

    void add(llama_token id, size_t position, int sequence, bool wants_logits)
    {
        int i = batch.n_tokens++;
        batch.token[i] = id;
        batch.pos[i] = (llama_pos)position;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = sequence;
        batch.logits[i] = wants_logits;
    }

    void run(llama_context *context)
    {
        if (llama_decode(context, batch) != 0) {
            fail("a batch failed");
        }
        batch.n_tokens = 0;
    }
};

static Ids parse(const std::string &line)
{
    Ids ids;
    for (size_t i = 0; i < line.size();) {
        char *end = nullptr;
        long id = std::isdigit((unsigned char)line[i]) ? std::strtol(&line[i], &end, 10) : -1;
        if (end != nullptr) {
            ids.push_back((llama_token)id);
        }
        i = end != nullptr ? (size_t)(end - line.data()) : i + 1;
    }
    return ids;
}

// ---- score --------------------------------------------------------------------------------------

struct Scores {
    std::vector<double> logprob, gap, expected;

    void add(const float *logits, int count, llama_token id, std::FILE *expect)
    {
        double largest = -INFINITY, second = -INFINITY, sum = 0, mean = 0, all = 0;
        std::vector<float> chances((size_t)count, 1);
        if (expect != nullptr &&
            std::fread(chances.data(), sizeof(float), chances.size(), expect) != chances.size()) {
            fail("too few probabilities");
        }
        for (int i = 0; i < count; i++) {
            double logit = logits[i];
            second = logit > largest ? largest : std::max(second, logit);
            largest = std::max(largest, logit);
        }
        for (int i = 0; i < count; i++) {
            sum += std::exp(logits[i] - largest);
            mean += (double)chances[(size_t)i] * logits[i];
            all += chances[(size_t)i];
        }
        double log_sum = largest + std::log(sum);
        logprob.push_back(logits[id] - log_sum);
        gap.push_back(largest - second);
        expected.push_back(mean / all - log_sum);
    }
};

static void print(const char *name, const std::vector<double> &values)
{
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < values.size(); i++) {
        std::printf("%s%.7f", i == 0 ? "" : ", ", values[i]);
    }
    std::printf("]");
}

static void score(llama_context *context, int vocab_tokens, const Ids &ids, std::FILE *expect)
{
    Batch batch;
    Scores scores;
    forget(context);
    for (size_t first = 0; first + 1 < ids.size(); first += BATCH_TOKENS) {
        size_t end = std::min(first + BATCH_TOKENS, ids.size() - 1);
        for (size_t i = first; i < end; i++) {
            batch.add(ids[i], i, 0, true);
        }
        batch.run(context);
        for (size_t i = first; i < end; i++) {
            scores.add(llama_get_logits_ith(context, (int32_t)(i - first)), vocab_tokens,
                       ids[i + 1], expect);
        }
    }
    std::printf("{");
    print("logprob", scores.logprob);
    std::printf(", ");
    print("gap", scores.gap);
    std::printf(", ");
    print("expected", scores.expected);
    std::printf("}\n");
}

// ---- greedy -------------------------------------------------------------------------------------

// The first of the largest, as our engine has it.
static llama_token best(llama_context *context, int row, const llama_vocab *vocab)
{
    const float *logits = llama_get_logits_ith(context, row);
    return (llama_token)(std::max_element(logits, logits + llama_vocab_n_tokens(vocab)) - logits);
}

struct Answer {
    Ids ids;
    size_t fed;
    bool ended;
};

static void prompt(llama_context *context, const llama_vocab *vocab, int sequence, const Ids &ids,
                   Answer &answer)
{
    Batch batch;
    int last = -1;
    for (size_t i = 0; i < ids.size(); i++) {
        last = batch.batch.n_tokens;
        batch.add(ids[i], i, sequence, i + 1 == ids.size());
        if (batch.batch.n_tokens == BATCH_TOKENS || i + 1 == ids.size()) {
            batch.run(context);
        }
    }
    llama_token id = best(context, last, vocab);
    answer = {{id}, ids.size(), llama_vocab_is_eog(vocab, id)};
}

static void greedy(llama_context *context, const llama_vocab *vocab, const Ids *prompts, int count,
                   size_t most)
{
    Batch batch;
    std::vector<Answer> answers((size_t)count);
    forget(context);
    for (int i = 0; i < count; i++) {
        prompt(context, vocab, i, prompts[i], answers[(size_t)i]);
    }
    for (;;) {
        std::vector<Answer *> going;
        for (int i = 0; i < count; i++) {
            Answer &answer = answers[(size_t)i];
            if (!answer.ended && answer.ids.size() < most) {
                batch.add(answer.ids.back(), answer.fed++, i, true);
                going.push_back(&answer);
            }
        }
        if (going.empty()) {
            break;
        }
        batch.run(context);
        for (size_t i = 0; i < going.size(); i++) {
            going[i]->ids.push_back(best(context, (int)i, vocab));
            going[i]->ended = llama_vocab_is_eog(vocab, going[i]->ids.back());
        }
    }
    for (const Answer &answer : answers) {
        for (size_t i = 0; i < answer.ids.size(); i++) {
            std::printf("%s%d", i == 0 ? "[" : ", ", answer.ids[i]);
        }
        std::printf("]\n");
    }
}

// ---- mixed --------------------------------------------------------------------------------------

static double mixed_seconds(llama_context *context)
{
    Batch batch;
    forget(context);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < PROMPT_TOKENS; i++) {
            batch.add(call + i + 3, (size_t)i, call, i + 1 == PROMPT_TOKENS);
        }
    }
    batch.run(context);
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < DECODE_TOKENS; step++) {
        for (int call = 0; call < CALLS; call++) {
            batch.add(call + step + 3, (size_t)(PROMPT_TOKENS + step), call, true);
        }
        for (int i = 0; step % PLAN_STEPS == 0 && i < CHUNK; i++) {
            batch.add(i + 3, (size_t)(step / PLAN_STEPS * CHUNK + i), CALLS, false);
        }
        batch.run(context);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// One KV for all sequences or one for each: the faster counts. The first run touches memory.
static void mixed(llama_model *model, int threads)
{
    double least = INFINITY;
    for (int unified = 0; unified < 2; unified++) {
        llama_context_params params = llama_context_default_params();
        params.n_seq_max = CALLS + 1;
        params.n_ctx = (CALLS + 1) * 512;
        params.n_threads = params.n_threads_batch = threads;
#ifndef IK_LLAMA
        params.kv_unified = unified != 0;
#endif
        llama_context *context = llama_init_from_model(model, params);
        if (context == nullptr) {
            fail("no context");
        }
        mixed_seconds(context);
        least = std::min(least, mixed_seconds(context));
        llama_free(context);
    }
    int tokens = CALLS * DECODE_TOKENS + DECODE_TOKENS / PLAN_STEPS * CHUNK;
    std::printf("%.2f\n", tokens / least);
}

// ---- context ------------------------------------------------------------------------------------

// Gives the call what the other sequence has in the KV.
static void hand_over(llama_context *context)
{
#ifdef IK_LLAMA
    llama_kv_cache_seq_cp(context, 1, 0, -1, -1);
    llama_kv_cache_seq_rm(context, 1, -1, -1);
#else
    llama_memory_seq_cp(llama_get_memory(context), 1, 0, -1, -1);
    llama_memory_seq_rm(llama_get_memory(context), 1, -1, -1);
#endif
}

// The pieces of the text come as sequences of their own, at its positions, and are given to the call:
// a prompt as long would take hours, and what is in the KV does not count.
static void fill_by_pieces(llama_context *context, size_t tokens)
{
    Batch batch;
    for (size_t at = 0; at < tokens; at += FILL) {
        for (size_t i = at; i < at + FILL; i++) {
            batch.add(3 + (llama_token)(i % 256), i, 1, false);
        }
        batch.run(context);
        hand_over(context);
    }
}

// ik_llama.cpp reads the whole KV for each piece: beyond COPIED tokens the same ones come again, at the
// positions that they have.
static void fill(llama_context *context, size_t tokens)
{
#ifdef IK_LLAMA
    fill_by_pieces(context, std::min(tokens, COPIED));
    std::vector<uint8_t> state(llama_state_seq_get_size(context, 0, 0));
    llama_state_seq_get_data(context, state.data(), state.size(), 0, 0);
    for (size_t at = COPIED; at < tokens; at += COPIED) {
        if (llama_state_seq_set_data(context, state.data(), state.size(), 1, 0) == 0) {
            fail("no room for a copy of the KV");
        }
        hand_over(context);
    }
#else
    fill_by_pieces(context, tokens);
#endif
}

static double decode_seconds(llama_context *context, size_t position)
{
    Batch batch;
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < DECODE_TOKENS; step++) {
        batch.add(3 + step, position + (size_t)step, 0, true);
        batch.run(context);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// The first run warms up.
static void of_context(llama_model *model, int threads, size_t tokens)
{
#ifdef IK_LLAMA
    tokens = (tokens + COPIED - 1) / COPIED * COPIED;
#endif
    tokens -= tokens % FILL;
    llama_context_params params = llama_context_default_params();
    params.n_seq_max = 2;
    params.n_ctx = (uint32_t)(tokens + 512);
    params.n_threads = params.n_threads_batch = threads;
#ifdef IK_LLAMA
    params.flash_attn = true;
#else
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.kv_unified = true;
#endif
    llama_context *context = llama_init_from_model(model, params);
    if (context == nullptr) {
        fail("no context");
    }
    fill(context, tokens);
    (void)decode_seconds(context, tokens);
    double seconds = decode_seconds(context, tokens + (size_t)DECODE_TOKENS);
    std::printf("%.2f\n", DECODE_TOKENS / seconds);
    llama_free(context);
}

static void answer_lines(llama_model *model, int threads, size_t most, std::FILE *expect)
{
    const llama_vocab *vocab = llama_model_get_vocab(model);
    std::vector<Ids> lines;
    size_t longest = 0;
    for (std::string line; std::getline(std::cin, line);) {
        lines.push_back(parse(line));
        longest = std::max(longest, lines.back().size());
    }
    int sequences = most > 0 ? SEQUENCES : 1;
    llama_context *context = start(model, threads, sequences, (int)(longest + most));
    for (size_t first = 0; first < lines.size(); first += (size_t)sequences) {
        int here = (int)std::min((size_t)sequences, lines.size() - first);
        if (most > 0) {
            greedy(context, vocab, &lines[first], here, most);
        } else {
            score(context, llama_vocab_n_tokens(vocab), lines[first], expect);
        }
    }
    llama_free(context);
}

int main(int count, char **words)
{
    std::string verb = count > 2 ? words[2] : "";
    bool has_number = verb == "greedy" || verb == "context";
    int next = has_number ? 4 : 3;
    if ((!has_number && verb != "score" && verb != "mixed") || count < next) {
        fail("usage: llamacpp MODEL.gguf score|greedy N|mixed|context N [THREADS [FILE]]");
    }
    size_t number = has_number ? (size_t)std::atoi(words[3]) : 0;
    int threads = count > next ? std::max(1, std::atoi(words[next])) : 1;
    std::FILE *expect = count > next + 1 ? std::fopen(words[next + 1], "rb") : nullptr;
    if (count > next + 1 && expect == nullptr) {
        fail("the file of probabilities cannot be opened");
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    llama_model_params params = llama_model_default_params();
#ifdef IK_LLAMA
    params.repack_tensors = verb == "mixed" || verb == "context";
#endif
    llama_model *model = llama_model_load_from_file(words[1], params);
    if (model == nullptr) {
        fail("it does not load the model");
    }
    if (verb == "mixed") {
        mixed(model, threads);
    } else if (verb == "context") {
        of_context(model, threads, number);
    } else {
        answer_lines(model, threads, number, expect);
    }
#ifdef IK_LLAMA
    llama_free_model(model);
#else
    llama_model_free(model);
#endif
    return 0;
}
