/* SPDX-License-Identifier: MIT */
/*
 * Goal: a picture always has the same number of lines of the same width, for any words of a model,
 * and only printable characters and our own colours. In a pipe every word comes out, in whole
 * lines.
 * Method: a file catches stdout; the test counts the columns of each line.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/agx/printable.h"
#include "tools/agx/agents/screen.h"
#include "tools/agx/agents/screen_frame.h"

static struct screen screen;
static char caught[1 << 18];
static int stdout_kept;
static FILE *file;

static void catch_output(void)
{
    fflush(stdout);
    file = tmpfile();
    stdout_kept = dup(STDOUT_FILENO);
    assert_true(stdout_kept >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
}

static void release_output(void)
{
    fflush(stdout);
    assert_true(dup2(stdout_kept, STDOUT_FILENO) >= 0);
    close(stdout_kept);
    rewind(file);
    caught[fread(caught, 1, sizeof caught - 1, file)] = '\0';
    fclose(file);
}

/* As on a terminal of this size; the test's stdout is none. */
static void open_screen(uint32_t panels, uint32_t columns, uint32_t rows, bool is_utf8)
{
    screen_init(&screen, panels);
    screen.is_utf8 = is_utf8;
    screen.is_terminal = true;
    assert_true(screen_frame_fits(&screen, columns, rows));
    for (uint32_t i = 0; i < panels; i++) {
        screen_title(&screen, i, "react", i % 2 ? "x" : "a name that is longer than most panels are"
                                                       " wide, and then some more of it");
        screen_status(&screen, i, "running", "call 1  queue 0  wait 0.00s  1 tok, and so on on on");
    }
}

/* Draws once, and checks every line of the picture. */
static void draw(uint64_t now_us, uint32_t rows)
{
    uint32_t lines = 0, columns = 0;
    catch_output();
    screen_draw(&screen, now_us);
    release_output();
    for (const char *at = caught; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == 0x1b) {
            at += strcspn(at, "mAK");           /* colour, up, clear to the end */
            assert_true(*at != '\0');
        } else if (byte == '\n') {
            assert_int_equal(columns, 2 * screen.width + 3);
            columns = 0;
            lines++;
        } else if (byte != '\r') {
            assert_true(byte >= 0x20 && byte != 0x7f);
            assert_true(byte < 0x80 || screen.is_utf8);
            columns += (byte & 0xc0) != 0x80;
        }
    }
    assert_int_equal(lines, (screen.panels_count + 1) / 2 * (2 + screen.body));
    assert_true(lines + 2 <= rows);
}

static uint32_t draw_number(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void add_noise(uint32_t *seed, uint32_t panel)
{
    char noise[80];
    uint32_t count = draw_number(seed, sizeof noise), id = 1 + draw_number(seed, 5);
    for (uint32_t i = 0; i < count; i++) {
        noise[i] = (char)(draw_number(seed, 3) ? ' ' + draw_number(seed, 95)
                                               : 1 + draw_number(seed, 255));
    }
    screen_add(&screen, panel, id, noise, count);
    switch (draw_number(seed, 12)) {
    case 0:
        screen_close(&screen, panel, id);
        break;
    case 1:
        screen_open(&screen, panel, id, "bot  ", draw_number(seed, 3));
        break;
    case 2:
        noise[count] = '\0';
        screen_say(&screen, panel,
                   (struct screen_head){(enum screen_style)draw_number(seed, 5), "a ",
                                        draw_number(seed, 3)}, noise);
        break;
    case 3:
        screen_step(&screen, panel);
        break;
    case 4:
        screen_verdict(&screen, panel, draw_number(seed, 2), "71");
        break;
    }
}

static void test_pictures_of_noise_keep_their_shape(void **state)
{
    static const struct { uint32_t panels, columns, rows; bool is_utf8; } rows[] = {
        {4, 80, 24, true}, {4, 80, 24, false}, {3, 120, 40, true}, {2, 81, 25, true},
        {1, 400, 200, true}};
    (void)state;
    for (uint32_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        uint32_t seed = k + 1;
        open_screen(rows[k].panels, rows[k].columns, rows[k].rows, rows[k].is_utf8);
        for (uint32_t i = 0; i < 300; i++) {
            for (uint32_t n = 0; n < 20; n++) {
                add_noise(&seed, draw_number(&seed, rows[k].panels));
            }
            draw(1000000 + i * 50000, rows[k].rows);
        }
    }
}

static void test_small_terminals_get_lines(void **state)
{
    (void)state;
    assert_false(screen_frame_fits(&screen, 79, 24));
    assert_false(screen_frame_fits(&screen, 80, 23));
    assert_false(screen_frame_fits(&screen, 0, 0));
    assert_true(screen_frame_fits(&screen, 80, 24));
}

static bool shows(uint64_t now_us, const char *text)
{
    draw(now_us, 24);
    return strstr(caught, text) != NULL;
}

static void test_a_step_waits_until_the_words_before_it_are_shown(void **state)
{
    (void)state;
    open_screen(4, 80, 24, true);
    screen_say(&screen, 0, (struct screen_head){SCREEN_PROMPT, "", 0}, "a question");
    screen_open(&screen, 0, 1, "", 0);
    screen_add(&screen, 0, 1, "an answer", 9);
    screen_step(&screen, 0);
    screen_say(&screen, 0, (struct screen_head){SCREEN_TOOL, "Obs: ", 0}, "5");
    draw(1000000, 24);
    assert_true(shows(1050000, "a question"));
    assert_false(strstr(caught, "an answer"));
    assert_true(shows(3000000, "an answer"));
    assert_false(shows(9000000, "Obs: 5"));     /* the answer may still grow */
    assert_false(screen_is_shown(&screen, 0));
    screen_close(&screen, 0, 1);
    assert_true(shows(9050000, "Obs: 5"));
    assert_true(screen_is_shown(&screen, 0));
}

static void test_in_a_pipe_every_word_comes_in_whole_lines(void **state)
{
    char words[64];
    (void)state;
    screen_init(&screen, 2);
    screen.is_terminal = false;
    screen.is_utf8 = false;
    screen_title(&screen, 0, "react", "one");
    screen_title(&screen, 1, "chat", "t\xc3\xa4o");
    catch_output();
    screen_open(&screen, 0, 1, "", 1);
    screen_open(&screen, 1, 1, "bot  ", 0);
    screen_add(&screen, 0, 1, "Think: a", 8);
    screen_add(&screen, 1, 1, " Hel\033lo.", 8);
    screen_add(&screen, 0, 1, "\nAct: b\n\nC", 10);
    screen_close(&screen, 0, 1);
    screen_close(&screen, 1, 1);
    screen_verdict(&screen, 0, true, "71");
    screen_verdict(&screen, 1, false, "expected x");
    release_output();
    assert_string_equal(caught, "[react one] Think: a\n[react one] Act: b\n[react one] C\n"
                                "[chat t.o] bot  Hel.lo.\n[react one] ok 71\n"
                                "[chat t.o] WRONG expected x\n");
    catch_output();
    screen_open(&screen, 0, 2, "", 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(words, sizeof words, "word%04d ", i);
        screen_add(&screen, 0, 2, words, (uint32_t)strlen(words));
    }
    screen_close(&screen, 0, 2);
    release_output();
    for (int i = 0; i < 1000; i += 100) {
        snprintf(words, sizeof words, "word%04d", i);
        assert_non_null(strstr(caught, words));
    }
}

static void test_text_is_made_printable(void **state)
{
    char line[32];
    (void)state;
    printable_line("a\nb\033[1m\xc3\xa4\xff\xc2\x9b\x7f", line, sizeof line);
    assert_string_equal(line, "a b.[1m\xc3\xa4...");
    printable_line("1234567\xe2\x9c\x93", line, 10);
    assert_string_equal(line, "1234567");
    printable_line("123456\xe2\x9c\x93", line, 10);
    assert_string_equal(line, "123456\xe2\x9c\x93");
    printable_line("cut\xe2\x9c", line, sizeof line);
    assert_string_equal(line, "cut..");
    catch_output();
    printable_write("a\n\033[2Jb\xc3", stdout);
    release_output();
    assert_string_equal(caught, "a\n.[2Jb.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_of_noise_keep_their_shape),
        cmocka_unit_test(test_small_terminals_get_lines),
        cmocka_unit_test(test_a_step_waits_until_the_words_before_it_are_shown),
        cmocka_unit_test(test_in_a_pipe_every_word_comes_in_whole_lines),
        cmocka_unit_test(test_text_is_made_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
