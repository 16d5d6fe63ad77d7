/*
 * MIG instances and their counters. "Header:", "Known:" and "Ours:" mean what they mean in nvml_standin.c.
 *
 * `N mig COUNT` divides device N into so many instances, of which the first may hide: `N mig_hole NUMBER`. A client is
 * on the first one unless `N on_instance NUMBER PID` says otherwise.
 */
#define _GNU_SOURCE
#include "standin.h"

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ours: a handle is good for one life of the driver; `calls` counts a use after that as `stale_handle`. */
static struct nvmlDevice_st handles[2][MAX_DEVICES][MAX_INSTANCES];

bool is_mig(int index) {
    return fault_is_on(index, "mig", "", NULL);
}

int instances_on(int index) {
    char argument[64];
    int count = fault_is_on(index, "mig", "", argument) ? atoi(argument) : 0;
    return count < MAX_INSTANCES ? count : MAX_INSTANCES;
}

nvmlDevice_t instance_handle(int index, int instance) {
    return &handles[lives() % 2][index][instance];
}

bool is_instance_handle(nvmlDevice_t handle, int *index, int *instance) {
    for (int i = 0; i < MAX_DEVICES; i++) {
        const struct nvmlDevice_st *now = handles[lives() % 2][i], *before = handles[(lives() + 1) % 2][i];
        if (handle >= now && handle < now + MAX_INSTANCES) {
            *index = i;
            *instance = (int)(handle - now);
            return true;
        }
        if (handle >= before && handle < before + MAX_INSTANCES) {
            count_call("stale_handle");
        }
    }
    return false;
}

bool is_on(const struct client *client, int index, int instance) {
    char pid[16], argument[64];
    if (instance == WHOLE) {
        return true;
    }
    snprintf(pid, sizeof pid, "%u", client->pid);
    return (fault_is_on(index, "on_instance", pid, argument) ? atoi(argument) : 0) == instance;
}

struct nvmlGpmSample_st {
    int index, instance;
    long long at; /* 0: nothing was read into it */
};

#pragma GCC visibility push(default)

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    DEVICE(device);
    NEED(count);
    *count = FUZZED(is_mig(index) ? MAX_INSTANCES : 0U); /* Header */
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned number, nvmlDevice_t *handle) {
    char hole[64];
    DEVICE(device);
    NEED(handle && number < MAX_INSTANCES);
    if ((int)number >= instances_on(index) ||
        (fault_is_on(index, "mig_hole", __func__, hole) && atoi(hole) == (int)number)) {
        return leave(NVML_ERROR_NOT_FOUND); /* Header */
    }
    *handle = instance_handle(index, (int)number);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
    DEVICE(device);
    NEED(id && instance != WHOLE);
    *id = FUZZED((unsigned)instance + 1);
    return leave(NVML_SUCCESS);
}

/* Known: Hopper and later. */
nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    DEVICE(device);
    NEED(support && support->version == NVML_GPM_SUPPORT_VERSION);
    support->isSupportedDevice = !fault_is_on(index, "gpm_absent", __func__, NULL);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    SYSTEM;
    NEED(sample);
    *sample = calloc(1, sizeof **sample);
    return leave(*sample ? NVML_SUCCESS : NVML_ERROR_MEMORY);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    SYSTEM;
    NEED(sample);
    free(sample);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    DEVICE(device);
    NEED(sample);
    *sample = (struct nvmlGpmSample_st){index, instance, monotonic_us()};
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned id, nvmlGpmSample_t sample) {
    DEVICE(device);
    NEED(sample && id >= 1 && (int)id <= instances_on(index));
    *sample = (struct nvmlGpmSample_st){index, (int)id - 1, monotonic_us()};
    return leave(NVML_SUCCESS);
}

/*
 * Header: each metric has a code of its own. Ours: the instance has one decoder, which does nothing, and no other
 * engine apart from the compute engine.
 */
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *wanted) {
    SYSTEM;
    NEED(wanted && wanted->version == NVML_GPM_METRICS_GET_VERSION && wanted->numMetrics <= NVML_GPM_METRIC_MAX);
    const struct nvmlGpmSample_st *first = wanted->sample1, *second = wanted->sample2;
    NEED(first && second && first->at > 0 && second->at > first->at);
    char argument[64];
    double percent = percent_on(first->index, first->instance, first->at, second->at);
    if (fault_is_on(first->index, "gpm_value", __func__, argument)) {
        percent = strtod(argument, NULL);
    }
    for (unsigned i = 0; i < wanted->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &wanted->metrics[i];
        bool compute = metric->metricId == NVML_GPM_METRIC_GRAPHICS_UTIL || metric->metricId == NVML_GPM_METRIC_SM_UTIL;
        bool decoder = metric->metricId == NVML_GPM_METRIC_NVDEC_0_UTIL;
        metric->nvmlReturn = compute || decoder ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        metric->value = compute ? percent : 0;
        if (fuzz_strikes()) {
            unsigned long long bits = fuzz_number(0);
            memcpy(&metric->value, &bits, sizeof bits);
        }
        if (decoder && fault_is_on(first->index, "gpm_decoder", __func__, argument)) {
            metric->value = strtod(argument, NULL);
        }
        if (compute && fault_is_on(first->index, "gpm_error", __func__, argument)) {
            metric->nvmlReturn = code_of(argument);
        }
    }
    return leave(NVML_SUCCESS);
}
