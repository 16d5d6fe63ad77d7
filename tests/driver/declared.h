/*
 * What processes declare that they hold and compute, and which faults are switched on: the folder named by
 * JUPYTER_GPU_GUARD_SIMULATED_DIR, read afresh. Nothing in here knows NVML. Not thread-safe: the caller holds a lock.
 */
#ifndef DECLARED_H
#define DECLARED_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_DEVICES 16
#define MAX_LOADS 16

enum kind { COMPUTE = 1, GRAPHICS = 2, MPS = 4 };

struct device {
    char uuid[80];
    char name[96];
    unsigned long long memory_total; /* bytes */
};

/* Compute between two times, or a wave from a time on. All times are CLOCK_MONOTONIC in microseconds. */
struct load {
    unsigned device;
    long long from;
    long long to;   /* -1: for ever; unused by a wave */
    long long high; /* how long a wave stays at `percent`; 0: no wave */
    long long low;
    double percent;
    double low_percent;
};

struct client {
    unsigned pid;
    /* What the driver says: usually the pid, or what was declared in its place, or see generations.h. */
    unsigned reported_pid; /* in the process lists; 0: it is not there */
    unsigned sampled_pid;
    unsigned host_pid;
    bool memory_lost; /* listed with memory 0 */
    int kinds;             /* of enum kind, or-ed */
    unsigned present;      /* bit i: has a context on device i */
    unsigned long long memory[MAX_DEVICES];
    struct load loads[MAX_LOADS];
    size_t load_count;
};

enum scope { SCOPE_ALL = -1, SCOPE_GLOBAL = -2 }; /* or the index of a device */

const char *declared_folder(void); /* NULL: the variable is not set */
long long monotonic_us(void);
size_t declared_devices(struct device devices[MAX_DEVICES]);

/* The clients alive now. Valid until the next call. */
const struct client *declared_clients(size_t *count);

/* Percent, averaged from `from` to `to`; at most 100. */
double mean_percent(const struct client *client, unsigned device, long long from, long long to);

/* Looks whether the faults have changed. For each call of the driver once: a look costs a system call. */
void read_faults(void);

/* Whether `fault` is switched on for this device (or SCOPE_GLOBAL) and this function. `argument` may be NULL. */
bool fault_is_on(int scope, const char *fault, const char *function, char argument[64]);

/* Notes one call in the file `calls`, if there is one: a line with the function's name. */
void count_call(const char *function);

#endif
