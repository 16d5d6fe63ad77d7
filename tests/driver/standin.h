/* What the files of the stand-in share. Everything here is called or read under the lock, after DEVICE or SYSTEM. */
#ifndef STANDIN_H
#define STANDIN_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "declared.h"

#include <stdbool.h>

#define MAX_INSTANCES 7
#define WHOLE (-1) /* the handle is of a whole device and not of a MIG instance */

/* Ours: what the driver keeps for itself. simulated_gpu.py and the process that declares use the same share. */
#define RESERVED(total) ((total) / 160)

struct nvmlDevice_st {
    struct device declared;
};

/* Takes the lock; leave() gives it back. */
nvmlReturn_t enter_system(const char *function);
nvmlReturn_t enter_device(nvmlDevice_t device, const char *function, int *index, int *instance);
nvmlReturn_t leave(nvmlReturn_t answer);

#define SYSTEM                                             \
    do {                                                   \
        nvmlReturn_t refusal = enter_system(__func__);     \
        if (refusal != NVML_SUCCESS) return leave(refusal); \
    } while (0)

/* Declares `index`, that of the device, and `instance`, the number of the MIG instance or WHOLE. */
#define DEVICE(handle)                                                          \
    int index, instance;                                                        \
    do {                                                                        \
        nvmlReturn_t refusal = enter_device(handle, __func__, &index, &instance); \
        (void)instance;                                                         \
        if (refusal != NVML_SUCCESS) return leave(refusal);                      \
    } while (0)

#define NEED(condition)                                                  \
    do {                                                                 \
        if (!(condition)) return leave(NVML_ERROR_INVALID_ARGUMENT);      \
    } while (0)

nvmlReturn_t give_text(char *buffer, unsigned length, const char *text);
nvmlReturn_t code_of(const char *name);

/* How often the driver has been opened. */
unsigned lives(void);

/* The device as it was when the driver was opened. */
const struct device *declared_as(int index);

/* From CLOCK_MONOTONIC to the driver's stamps. */
long long offset_us(void);

/* Percent of the device or instance between two times, by all its clients together. */
double percent_on(int index, int instance, long long from, long long to);

/* ---- MIG (mig.c) ---- */

bool is_mig(int index);
int instances_on(int index); /* how many instances it is divided into */
nvmlDevice_t instance_handle(int index, int instance);
bool is_instance_handle(nvmlDevice_t handle, int *index, int *instance);

/* Whether the client has its memory and work on what `instance` means. */
bool is_on(const struct client *client, int index, int instance);

#endif
