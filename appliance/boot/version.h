/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the version of the programs, which tools/package/version takes from git. Its object is
 * linked into programs and lies in no library: a commit links them again and compiles nothing. */
extern const char version_text[];
