/* SPDX-License-Identifier: MIT */
/*
 * What: the model of the door (tools/door/model.h), read with the appliance's own code.
 * Bounds: the tokenizer's scratch is 50 times the longest text; what is never used is never there.
 */
#include "tools/door/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/chat/answer.h"

#define HEADER_BYTES_MAX (UINT64_C(1) << 30)

extern const uint8_t embedded_model[], embedded_model_end[];

static enum status open_source(struct gguf_source *source, const char *path,
                               struct config_error *error)
{
    if (path[0] == '\0') {
        gguf_source_memory(source, embedded_model,
                           (uint64_t)(embedded_model_end - embedded_model), "embedded model");
        return STATUS_OK;
    }
    return gguf_source_open(source, path, error);
}

static enum status read_vocab(struct model *model, struct gguf *gguf,
                              const struct gguf_source *source, struct config_error *error)
{
    struct memory_plan plan = {0};
    struct arena arena;
    TRY(gguf_scan(gguf, source, HEADER_BYTES_MAX, error));
    vocab_plan_memory(&plan, &gguf->vocab);
    TRY(arena_map(&arena, memory_plan_bytes(&plan, MEMORY_MODEL), false));
    return vocab_load(&model->vocab, gguf, source, &arena, error);
}

static void copy_token(const struct vocab *vocab, uint32_t token, char text[CHAT_TOKEN_BYTES])
{
    uint32_t bytes;
    const char *own = vocab_token_text(vocab, token, &bytes);
    snprintf(text, CHAT_TOKEN_BYTES, "%.*s", (int)bytes, own != NULL ? own : "");
}

/* At worst each byte, and a space mark of three bytes before it, is a token. */
static enum status take_scratch(struct model *model, uint32_t text_bytes_max)
{
    void *memory = malloc(vocab_scratch_bytes(text_bytes_max));
    model->ids_max = 4 * (text_bytes_max + 1);
    model->ids = malloc(model->ids_max * sizeof *model->ids);
    if (memory == NULL || model->ids == NULL) {
        return STATUS_CONFIG_MEMORY;
    }
    vocab_scratch_init(&model->scratch, memory, text_bytes_max);
    return STATUS_OK;
}

static bool is_control(struct model *model, const char *mark)
{
    const struct vocab_input input = {.text = mark, .bytes = (uint32_t)strlen(mark),
                                      .parse_special = true};
    const uint32_t *ids;
    uint32_t count, bytes;
    return model_encode(model, &input, &ids, &count) && count == 1 &&
           vocab_control_text(&model->vocab, ids[0], &bytes) != NULL;
}

static bool has_control_marks(struct model *model)
{
    const char *mark;
    bool has = false;
    for (uint32_t i = 0; (mark = chat_answer_mark(model->format.id, i)) != NULL; i++) {
        has = has || is_control(model, mark);
    }
    return has;
}

enum status model_load(struct model *model, const struct options *options,
                       uint32_t text_bytes_max, struct config_error *error)
{
    static struct gguf gguf;
    struct gguf_source source;
    TRY(open_source(&source, options->model_path.text, error));
    enum status status = read_vocab(model, &gguf, &source, error);
    gguf_source_close(&source);
    TRY(status);
    memcpy(model->name, gguf.model_name, sizeof gguf.model_name);
    model->verdict = gguf.chat.verdict;
    model->format = gguf.chat.format;
    copy_token(&model->vocab, model->vocab.info.bos_id, model->format.bos);
    copy_token(&model->vocab, model->vocab.info.eos_id, model->format.eos);
    model->vocab_digest = vocab_digest(&model->vocab);
    model->chat_digest = chat_digest(model->verdict, &model->format);
    TRY(take_scratch(model, text_bytes_max));
    model->has_control_marks = has_control_marks(model);
    return STATUS_OK;
}

const char *model_difference(const struct model *model, const struct agx_welcome *welcome,
                             const struct agx_event *told)
{
    return strcmp(model->name, welcome->model) != 0          ? "name"
           : told == NULL                                    ? NULL
           : model->vocab_digest != told->vocab_digest       ? "vocabulary"
           : model->chat_digest != told->chat_digest         ? "chat format"
                                                             : NULL;
}

bool model_encode(struct model *model, const struct vocab_input *input, const uint32_t **ids,
                  uint32_t *count)
{
    struct vocab_output output = {.tokens = model->ids, .max = model->ids_max};
    bool fits = input->bytes <= model->scratch.text_bytes_max &&
                vocab_encode(&model->vocab, &model->scratch, input, &output) == STATUS_OK;
    *ids = model->ids;
    *count = fits ? output.count : 0;
    return fits;
}
