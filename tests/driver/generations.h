/*
 * What a client is called in the driver's answers. Drivers give the pid of the host, or that in the pid namespace of
 * whoever asks, depending on their generation and on the call: `global generation 535.104|535.113|565|570`.
 *
 * Whoever asks from a namespace of its own needs the /proc of the host to be mounted at the folder `host-proc` as well.
 */
#ifndef GENERATIONS_H
#define GENERATIONS_H

#include <stdbool.h>

struct called {
    unsigned listed;  /* in the process lists; 0: not listed */
    unsigned sampled; /* in the utilisation samples */
    unsigned host;    /* in the host's pid namespace */
    bool memory_lost; /* the driver does not find its memory, and says 0 */
};

/* Whether the process `pid` that started at `start_ticks` lives, in whichever namespace it is called so; and how. */
bool called_by(const char *generation, unsigned pid, unsigned long long start_ticks, struct called *called);

/* A process lives if it exists with exactly that start time and is neither a zombie nor dead: such a one has no memory. */
bool is_alive(const char *proc, unsigned pid, unsigned long long start_ticks);

#endif
