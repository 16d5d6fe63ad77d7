/* "Header:", "Known:" and "Ours:" mean what they mean in nvml_standin.c. */
#include "ring.h"

#include "declared.h"
#include "fuzz.h"

#include <stdlib.h>

/* Known: a slot of the ring is overwritten after about 10 s, and there are 72 of them. */
#define SLOTS 72
#define SLOT_US (10000000LL / SLOTS)

static void add_sample(struct samples *samples, unsigned pid, unsigned long long stamp, unsigned percent) {
    if (samples->count == samples->room) {
        samples->room = samples->room ? samples->room * 2 : 64;
        samples->rows = realloc(samples->rows, samples->room * sizeof *samples->rows);
        if (samples->rows == NULL) {
            abort();
        }
    }
    samples->rows[samples->count++] = (struct sample){pid, stamp, percent, 0};
}

/*
 * Header: one row per process with some non-zero utilisation among the samples newer than `last_seen`; 0 means all that
 * the buffer still has. Known: the value is the average over those samples, and the row carries the time of the newest
 * sample in which the process was active. Known, and not imitated: each slot names a single process per engine, so that
 * two processes share the slots by chance; ours share each slot in proportion.
 */
struct samples *ring_read(int index, const char *function, unsigned long long last_seen, long long offset) {
    static struct samples samples; /* under the lock */
    static double crowd[SLOTS];
    size_t count;
    long long newest = monotonic_us() / SLOT_US, oldest = newest - SLOTS + 1, seen = 0;
    const struct client *clients = declared_clients(&count);
    samples.count = 0;
    if (last_seen > 0) {
        seen = ((long long)last_seen - offset) / SLOT_US;
        oldest = seen + 1 > oldest ? seen + 1 : oldest;
    }
    oldest = oldest > 0 ? oldest : 1; /* just after boot */
    for (long long slot = oldest; slot <= newest; slot++) {
        crowd[slot % SLOTS] = 0;
        for (size_t i = 0; i < count; i++) {
            if (clients[i].load_count > 0) {
                crowd[slot % SLOTS] +=
                    mean_percent(&clients[i], (unsigned)index, (slot - 1) * SLOT_US, slot * SLOT_US);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        long long active = -1;
        for (long long slot = oldest; slot <= newest && clients[i].load_count > 0; slot++) {
            double percent = mean_percent(&clients[i], (unsigned)index, (slot - 1) * SLOT_US, slot * SLOT_US);
            double shared = crowd[slot % SLOTS];
            sum += shared > 100 ? percent * 100 / shared : percent;
            active = percent > 0 ? slot : active;
        }
        bool listed = clients[i].present & 1U << index;
        if (active >= 0) {
            add_sample(&samples, clients[i].sampled_pid, (unsigned long long)(active * SLOT_US + offset),
                       (unsigned)(sum / (double)(newest - oldest + 1) + 0.5));
        } else if (listed && last_seen > 0 && fault_is_on(index, "ghost_samples", function, NULL)) {
            /* Known: rows older than `last_seen` come back. */
            add_sample(&samples, clients[i].sampled_pid, last_seen - 1000000, 66);
        }
        if (listed && fault_is_on(index, "over_100", function, NULL)) {
            /* Known: values far above 100 come back. */
            samples.count -= active >= 0;
            add_sample(&samples, clients[i].sampled_pid, (unsigned long long)(newest * SLOT_US + offset), 65535);
        }
    }
    char ghost[64];
    if (fault_is_on(index, "ghost_samples", function, ghost)) {
        /* Known: rows without a pid, and rows of processes that are in no list or have ended, come back. */
        add_sample(&samples, 0, (unsigned long long)(newest * SLOT_US + offset), 55);
        add_sample(&samples, atoi(ghost) > 1 ? (unsigned)atoi(ghost) : 4000000,
                   (unsigned long long)(newest * SLOT_US + offset), 77);
    }
    if (fault_is_on(index, "zero_stamps", function, NULL)) {
        for (size_t i = 0; i < samples.count; i++) {
            samples.rows[i].stamp = 0;
        }
    }
    for (size_t i = 0; i < samples.count; i++) {
        samples.rows[i].pid = fuzz_pid(samples.rows[i].pid);
        samples.rows[i].stamp = fuzz_number(samples.rows[i].stamp);
        samples.rows[i].percent = (unsigned)fuzz_number(samples.rows[i].percent);
    }
    return &samples;
}

/* Ours: `jpeg_percent N` gives every listed process so much work on the engine that only the newer call reports. */
void ring_add_jpeg(int index, const char *function, struct samples *samples, long long offset) {
    char argument[64];
    size_t count;
    const struct client *clients = declared_clients(&count);
    if (!fault_is_on(index, "jpeg_percent", function, argument)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (clients[i].present & 1U << index) {
            add_sample(samples, clients[i].sampled_pid, (unsigned long long)(monotonic_us() + offset), 0);
            samples->rows[samples->count - 1].jpeg_percent = (unsigned)atoi(argument);
        }
    }
}
