/* SPDX-License-Identifier: MIT */
#pragma once
/* What: `agx tokenize --vocab MODEL.gguf [--file F | TEXT]`: text to token ids, without an
 * appliance. argv[0] is the word "tokenize". Returns the exit code: 0, 1 for a bad file, 2 for a
 * bad command line. */
int tokenize_main(int argc, char **argv);
