/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: everything between the command line and the first pass: options, model header, limits,
 * memory plan, arenas. Keeper, core and workers inherit `struct boot`; none of them writes it after
 * boot.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "net/kept/pages.h"
#include "config/base/step.h"
#include "appliance/boot/exit.h"
#include "appliance/boot/available.h"
#include "appliance/boot/cpus.h"
#include "appliance/control.h"
#include "appliance/boot/gpu.h"
#include "appliance/boot/line.h"
#include "appliance/pockets.h"
#include "config/access.h"
#include "config/config.h"
#include "config/devices.h"
#include "config/model/gguf.h"
#include "config/model/predictor.h"
#include "config/keys.h"
#include "config/prefixes.h"
#include "config/vocab/vocab.h"
#include "kernels/kernels.h"

enum boot_listener { BOOT_LISTENER_UNIX, BOOT_LISTENER_TCP, BOOT_LISTENER_TEXT, BOOT_LISTENERS };

struct boot {
    struct line line;
    struct options options;
    struct config_user user;        /* appliance.user */
    struct config_machine machine;
    struct cpus cpus;               /* that the process may use */
    struct memory_bounds bounds;
    enum kernels_simd simd_best;
    struct limits limits;
    struct config_access access;
    struct config_keys *keys;       /* after the fork the core has the only copy (core.c) */
    struct config_prefixes prefixes;
    struct predictor predictor;
    struct gguf_source predictor_source;    /* open until it is loaded */
    struct gguf_source source;
    struct gguf *gguf;
    uint64_t model_digest;          /* of that model, as one that serves computes it; 0: none yet */
    struct vocab vocab;
    struct memory_plan plan;
    struct memory_plan weights_plans[2];    /* the rows of weights as in the file, and as bfloats;
                                               without rows: not added up yet */
    struct memory_plan gpu_weights_plan;    /* the same of the GPU's */
    struct arena model_arena, weights_arena, shared_arena;
    struct arena kept_arena;        /* of cores: each takes it from its start, as it was left; */
    int kept_handle;                /* it is the memory of this, which a core locks. 0: none yet */
    struct kernels_settings engine; /* of each engine */
    struct kernels_weights *weights;
    struct step step;               /* engine 0's record; step_at() gives the others' */
    struct shared shared;
    bool serves_by_gpu;             /* the next four are for its workers; else they are closed */
    struct config_devices devices;  /* of the engines, where a GPU serves */
    struct gpu gpu;                 /* of these, which are alike, the one with the least memory */
    struct gpu_binary gpu_binary;   /* with the page of probes; each worker opens its own */
    int shared_handle;              /* of shared_arena */
    int listeners[BOOT_LISTENERS];  /* bound sockets, -1: off */
    struct pockets pockets;         /* of connections */
    int replies_handle;             /* of limits.replies_file; 0: none */
    struct pages replies;           /* of kept_arena: what that file has */
    const char *version;            /* of this program, */
    uint64_t program;               /* and a digest that tells its file from another one */
    bool is_upgrade;                /* it takes over from an appliance that serves (upgrade/), */
    bool needs_another_program;     /* if that runs another file */
    int upgrade_listener;           /* where the next one asks; 0: none */
    int upgrade_leash[2];           /* upgrade/leash.h; as often as there is a listener */
};

/* Once rights are given up (confine.h): opens and scans the model, reads what the machine has,
 * makes the plan. */
enum boot_exit boot_measure(struct boot *boot);
/* Refuses a plan that the machine cannot hold, with the figures and a command that it can. */
enum boot_exit boot_check_memory(struct boot *boot);
/* A driver may be needed, at boot or later. */
static inline bool boot_may_use_gpu(const struct boot *boot)
{
    return option_engine_kind(&boot->options) != OPTION_ENGINE_KIND_CPU;
}
/* Maps model, shared and kept memory, reads the vocabulary. */
enum boot_exit boot_reserve(struct boot *boot);
/* In the core: closes and unmaps what only the keeper needs, for workers. */
void boot_forget_worker(struct boot *boot);
/* In a worker: unmaps what only cores have. */
void boot_forget_core(struct boot *boot);
/* Reads and packs the weights for CPU engines, one tensor at each boot_load_next(), so that the
 * caller can act in between; boot_load_end() makes them read-only. `progress` (permille) may be
 * NULL. */
struct boot_load {                  /* 10 KiB: place it statically */
    struct kernels_loading loading; /* at the end, its digest is that of the weights */
    uint32_t said_tenths;
};
enum boot_exit boot_load_begin(struct boot *boot, struct boot_load *load);
bool boot_load_is_done(const struct boot_load *load);
enum boot_exit boot_load_next(struct boot_load *load, volatile uint32_t *progress);
void boot_load_end(struct boot *boot, const struct boot_load *load);
/* Gives the memory of the weights back to the system, takes as much at the same addresses, and
 * begins anew. False: the system refused. */
bool boot_load_again(struct boot *boot, struct boot_load *load);
/* What the loop is built from, but for `world`: the self-test has its own. */
struct loop_settings;
void boot_loop_settings(const struct boot *boot, struct loop_settings *settings);
/* Applies memory.lock: locks what the process has mapped. Only `yes` can fail. */
enum boot_exit boot_lock_memory(const struct boot *boot);
