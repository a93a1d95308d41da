/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/*
 * What: the terminal. The cursor finds the beginning of a picture again by the number of its lines.
 */

static bool knows_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (uint32_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0') {
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
        }
    }
    return false;
}

void screen_open(struct screen *screen)
{
    struct winsize size = {0};
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    memset(screen, 0, sizeof *screen);
    screen->is_utf8 = knows_utf8();
    screen->is_terminal = isatty(STDOUT_FILENO) && kind != NULL && strcmp(kind, "dumb") != 0 &&
                          ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    screen->has_colour = screen->is_terminal && (no_colour == NULL || *no_colour == '\0');
    screen->columns = size.ws_col;
    screen->lines = size.ws_row;
}

void screen_put(struct screen_text *text, const char *bytes, size_t count)
{
    if (count <= sizeof text->bytes - text->count) {
        memcpy(text->bytes + text->count, bytes, count);
        text->count += count;
    }
}

void screen_draw(struct screen *screen, const struct screen_text *text, uint32_t lines)
{
    char up[16];
    int bytes = screen->drawn > 0 ? snprintf(up, sizeof up, "\033[%uA\r", screen->drawn) : 0;
    fwrite(up, 1, (size_t)bytes, stdout);
    fwrite(text->bytes, 1, text->count, stdout);
    fflush(stdout);
    screen->drawn = lines;
}
