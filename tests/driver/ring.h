/* The driver's ring of utilisation samples, computed from what processes declare. The caller holds a lock. */
#ifndef RING_H
#define RING_H

#include <stddef.h>

struct sample {
    unsigned pid;
    unsigned long long stamp; /* microseconds since 1970; Known: on some platforms since boot instead */
    unsigned percent;
    unsigned jpeg_percent;
};

struct samples {
    struct sample *rows;
    size_t count, room;
};

/* Samples of device `index` newer than `last_seen`; `offset`: from CLOCK_MONOTONIC to stamps. Valid until the next call. */
struct samples *ring_read(int index, const char *function, unsigned long long last_seen, long long offset);

/* Adds what the fault `jpeg_percent` asks for. */
void ring_add_jpeg(int index, const char *function, struct samples *samples, long long offset);

#endif
