# SPDX-License-Identifier: MIT
"""The cliff's edges: what is served at 16 times the sessions that fit, on other machines, with less
KV, shared otherwise (ours). As cliff.py measures it, but at few numbers of sessions."""
import itertools

from cliff import MACHINES, KV, OURS, SYSTEMS, TIMES, TRACES, Cliff, Found, \
    PICTURE, cell, percent, tenths, tokens

SHARINGS = ("program", "domain")
SHARE_MORE = 1.2                            # a sharing that lets fewer more fit is no other setup
TOKENS_MAX = 550e6                          # of a run's calls; more would take the lab minutes
HEADS = ["", "machine", "KV", "shared by", "fit", "best, tokens a second",
         *(f"{name}, 16 x" for name in SYSTEMS), "hits, 1 x", "hits, 16 x", "copying, 16 x",
         "fed again, 16 x"]


def is_worthwhile(it, trace, machine, kv, sharing):
    setup, apart = (it.setup(trace, machine, kv, shared) for shared in (sharing, SHARINGS[0]))
    return setup.tokens() <= TOKENS_MAX and \
        (sharing == SHARINGS[0] or setup.fit > SHARE_MORE * apart.fit)


def row(found, place):
    best, last = found.best(place), TIMES[-1]
    return [*place, tokens(found.it.setup(*place).fit), tokens(best),
            *(cell(found.at(place, name, last, "tokens"),
                   lambda value: percent(100 * value / best)) for name in SYSTEMS),
            *(cell(found.at(place, OURS, times, "hits"), percent) for times in (TIMES[0], last)),
            *(cell(found.at(place, OURS, last, what), tenths) for what in ("copies", "again"))]


def fill(page, runs, quick):
    it = Cliff(runs, [])
    it.places = [(trace, *PICTURE) for trace in TRACES] if quick else \
        [place for place in itertools.product(TRACES, MACHINES, KV, SHARINGS)
         if is_worthwhile(it, *place)]
    found = Found(it)
    page.table("cliff-edges", HEADS, [row(found, place) for place in it.places])
