// SPDX-License-Identifier: MIT
// What: llama.cpp's greedy answer, for comparison with ours (selftest/e2e/test_llamacpp.py).
//
//     llamacpp_greedy MODEL.gguf N
//
// Each line of stdin is a JSON list of prompt ids; its answer is a line with a JSON list of at most
// N ids. An end-of-generation token is the last one. Keys and values are kept in F32 and attention
// is the plain one, as ours is; one thread, for the prompts are short.
//
// Build, with LLAMA a checkout of llama.cpp and BUILD its static build without a GPU:
//
//     g++ -O2 -std=c++17 -fopenmp -I$LLAMA/include -I$LLAMA/ggml/include
//         tools/bench/llamacpp_greedy.cpp -o llamacpp_greedy $BUILD/src/libllama.a
//         $BUILD/ggml/src/libggml.a $BUILD/ggml/src/libggml-cpu.a $BUILD/ggml/src/libggml-base.a
//         -lpthread -ldl
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "llama.h"

static std::vector<llama_token> parse(const std::string &line)
{
    std::vector<llama_token> ids;
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

// The first of the largest, as our engine has it.
static llama_token best(llama_context *context, const llama_vocab *vocab)
{
    const float *logits = llama_get_logits_ith(context, -1);
    return (llama_token)(std::max_element(logits, logits + llama_vocab_n_tokens(vocab)) - logits);
}

static bool answer(llama_context *context, const llama_vocab *vocab,
                   std::vector<llama_token> next, int most)
{
    llama_memory_clear(llama_get_memory(context), true);
    std::printf("[");
    for (int i = 0; i < most; i++) {
        if (llama_decode(context, llama_batch_get_one(next.data(), (int32_t)next.size())) != 0) {
            return false;
        }
        next = {best(context, vocab)};
        std::printf("%s%d", i == 0 ? "" : ", ", next[0]);
        if (llama_vocab_is_eog(vocab, next[0])) {
            break;
        }
    }
    std::printf("]\n");
    return std::fflush(stdout) == 0;
}

int main(int count, char **arguments)
{
    if (count != 3 || std::atoi(arguments[2]) < 1) {
        std::fprintf(stderr, "usage: llamacpp_greedy MODEL.gguf N <prompts >answers\n");
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(arguments[1], llama_model_default_params());
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 0;               // the model's
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context *context = model == nullptr ? nullptr : llama_init_from_model(model, params);
    if (context == nullptr) {
        std::fprintf(stderr, "%s: llama.cpp does not load it\n", arguments[1]);
        return 1;
    }
    for (std::string line; std::getline(std::cin, line);) {
        if (!answer(context, llama_model_get_vocab(model), parse(line), std::atoi(arguments[2]))) {
            std::fprintf(stderr, "llama.cpp failed\n");
            return 1;
        }
    }
    llama_free(context);
    llama_model_free(model);
    return 0;
}
