/* SPDX-License-Identifier: MIT */
/* What: tokens in the order of their ids. After the byte tokens, scores fall as ids rise. */
#include "tools/mkmodel/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#define ASCII_FIRST   259           /* first token after the byte tokens */
#define SPACE         "\xe2\x96\x81"

/* In order of their scores; `_` stands for U+2581. */
static const char pieces[] =
    "_t he _a in _s er on re _the _o _w at nd _b or _c en es it is al ar ou _f _m an ed _p ing "
    "_to _and _h st _d le ic _in ve as om _l _g _re ll ce ion _of _y me _n ver ent _be ur ro ow "
    "th _e _is _it ch ad _you _for ly _on id am se ut ig _st ay ra ac el il ter im _wh ot gh "
    "_that _he ke _we _if ers _as ul ir et _con ate _ma us pe tion _I _not un _or ess ight "
    "ation ol ther _do _ha _an ment est ity _with _was os ore all ir ab op ri one _have out _at "
    "_by _so _this ag oo ame ear ome _from _are _can ith og ood up _will _no _all my ally ink "
    "ind _one _go _up able _what";

/* Appends `text`, `_` written as U+2581, if there is room and no English piece is the same. */
static void add_token(struct vocabulary *v, const char *text, uint32_t kind)
{
    struct token token = {.kind = kind};
    for (size_t used = 0; *text != '\0'; text++) {
        bool space = kind == TOKEN_NORMAL && *text == '_';
        used += (size_t)snprintf(token.text + used, sizeof token.text - used, "%s",
                                 space ? SPACE : (char[]){*text, '\0'});
    }
    for (uint32_t i = 0; i < v->pieces_end; i++) {
        if (strcmp(v->tokens[i].text, token.text) == 0) {
            return;
        }
    }
    if (v->count < v->room) {
        v->tokens[v->count++] = token;
    }
}

static void add_ascii(struct vocabulary *v)
{
    for (char c = '!'; c <= '~'; c++) {
        struct token token = {.text = {c}, .kind = TOKEN_NORMAL};
        v->tokens[v->count++] = token;
    }
    add_token(v, "_", TOKEN_NORMAL);
}

static void add_pieces(struct vocabulary *v)
{
    char copy[sizeof pieces];
    memcpy(copy, pieces, sizeof pieces);
    for (char *piece = strtok(copy, " "); piece != NULL; piece = strtok(NULL, " ")) {
        v->pieces_end = v->count;
        add_token(v, piece, TOKEN_NORMAL);
    }
    v->pieces_end = v->count;
}

/* Syllable i of 100: two letters. */
static void copy_syllable(char *text, uint32_t i)
{
    text[0] = "bcdfghjklmnprstvwxyz"[i / 5 % 20];
    text[1] = "aeiou"[i % 5];
}

/* `count` syllables in all combinations, after an optional space; shorter ones came before. */
static void add_syllables(struct vocabulary *v, uint32_t count, bool space)
{
    uint32_t combinations = count == 1 ? 100 : count == 2 ? 10000 : 1000000;
    for (uint32_t i = 0; i < combinations && v->count < v->room; i++) {
        char text[8] = {0};
        uint32_t used = 0, rest = i;
        if (space) {
            text[used++] = '_';
        }
        for (uint32_t k = 0; k < count; k++, rest /= 100) {
            copy_syllable(text + used + 2 * k, rest % 100);
        }
        add_token(v, text, TOKEN_NORMAL);
    }
}

void vocabulary_build(struct vocabulary *v, uint32_t count)
{
    *v = (struct vocabulary){.tokens = calloc(count, sizeof *v->tokens), .room = count};
    if (v->tokens == NULL) {
        fail("no memory");
    }
    add_token(v, "<unk>", TOKEN_UNKNOWN);
    add_token(v, "<s>", TOKEN_CONTROL);
    add_token(v, "</s>", TOKEN_CONTROL);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add_token(v, text, TOKEN_BYTE);
    }
    add_ascii(v);
    add_pieces(v);
    for (uint32_t syllables = 1; syllables <= 3; syllables++) {
        add_syllables(v, syllables, false);
        add_syllables(v, syllables, true);
    }
    if (v->count != count) {
        fail("cannot make %u different tokens", count);
    }
}

void vocabulary_control(struct vocabulary *v, const struct argument_texts *texts)
{
    for (uint32_t i = 0; i < texts->count; i++) {
        struct token *token = &v->tokens[v->count - texts->count + i];
        *token = (struct token){.kind = TOKEN_CONTROL};
        snprintf(token->text, sizeof token->text, "%s", texts->texts[i]);
    }
}

void vocabulary_put(const struct vocabulary *v, struct writer *writer)
{
    put_key_text(writer, "tokenizer.ggml.model", "llama");
    put_key_text(writer, "tokenizer.ggml.pre", "default");
    put_key_array(writer, "tokenizer.ggml.tokens", VALUE_TEXT, v->count);
    for (uint32_t i = 0; i < v->count; i++) {
        put_text(writer, v->tokens[i].text);
    }
    put_key_array(writer, "tokenizer.ggml.scores", VALUE_F32, v->count);
    for (uint32_t i = 0; i < v->count; i++) {
        put_f32(writer, i < ASCII_FIRST ? 0.0f : -(float)(i - ASCII_FIRST));
    }
    put_key_array(writer, "tokenizer.ggml.token_type", VALUE_I32, v->count);
    for (uint32_t i = 0; i < v->count; i++) {
        put_u32(writer, v->tokens[i].kind);
    }
    put_key_u32(writer, "tokenizer.ggml.unknown_token_id", 0);
    put_key_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    put_key_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    put_key_bool(writer, "tokenizer.ggml.add_bos_token", true);
    put_key_bool(writer, "tokenizer.ggml.add_eos_token", false);
    put_key_bool(writer, "tokenizer.ggml.add_space_prefix", true);
}
