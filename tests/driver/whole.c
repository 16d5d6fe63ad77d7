/*
 * What a driver says of a whole device over time: its own samples, its accounting of processes, its place on the bus.
 * "Header:", "Known:" and "Ours:" mean what they mean in nvml_standin.c.
 */
#define _GNU_SOURCE
#include "standin.h"

#include "fuzz.h"

#include <stdio.h>
#include <string.h>

/* Known: a ring of 100 slots. Header: the driver takes a sample once a second to six times a second. */
#define SLOTS 100
#define SLOT_US (1000000LL / 6)

#pragma GCC visibility push(default)

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    DEVICE(device);
    NEED(pci);
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)index + 1;
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, 0U, pci->bus, 0U);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, 0U, pci->bus, 0U);
    return leave(NVML_SUCCESS);
}

/*
 * Header: NOT_FOUND without samples; without a buffer this asks for their number; not on MIG. Known: while a device does
 * nothing the ring may run dry (`dry_ring`).
 */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long last_seen,
                                  nvmlValueType_t *value_type, unsigned *count, nvmlSample_t *samples) {
    DEVICE(device);
    NEED(value_type && count);
    if (is_mig(index) || (type != NVML_GPU_UTILIZATION_SAMPLES && type != NVML_MEMORY_UTILIZATION_SAMPLES)) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    NEED(samples == NULL || *count > 0);
    bool dry = fault_is_on(index, "dry_ring", __func__, NULL);
    long long newest = monotonic_us() / SLOT_US, first = newest - SLOTS + 1;
    unsigned found = 0;
    for (long long slot = first > 0 ? first : 1; slot <= newest; slot++) {
        unsigned long long stamp = (unsigned long long)(slot * SLOT_US + offset_us());
        double percent = percent_on(index, WHOLE, (slot - 1) * SLOT_US, slot * SLOT_US);
        if (stamp <= last_seen || (dry && percent <= 0)) {
            continue;
        }
        if (samples != NULL && found < *count) {
            percent = type == NVML_GPU_UTILIZATION_SAMPLES ? percent : percent / 2;
            samples[found] = (nvmlSample_t){FUZZED(stamp), {.uiVal = FUZZED((unsigned)(percent + 0.5))}};
        }
        found++;
    }
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT; /* Header */
    *count = fuzz_count(samples == NULL || found < *count ? found : *count);
    return leave(found > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}

/* Known: off until an administrator switches it on (`accounting`). Header: off with MIG. */
nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
    DEVICE(device);
    NEED(mode);
    *mode = fault_is_on(index, "accounting", __func__, NULL) && !is_mig(index) ? NVML_FEATURE_ENABLED
                                                                               : NVML_FEATURE_DISABLED;
    return leave(NVML_SUCCESS);
}

#ifndef STANDIN_ONLY_V2
/*
 * Header: sums in hundredths of a percent, over samples that are counted from the start of the process. Known: only the
 * compute engine and the memory. Ours: the count goes on while the process does nothing, and starts at boot.
 */
nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats) {
    size_t count;
    DEVICE(device);
    NEED(stats);
    if (is_mig(index) || !fault_is_on(index, "accounting", __func__, NULL)) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    const struct client *client = declared_clients(&count);
    for (size_t i = 0; i < count; i++, client++) {
        if (client->pid == stats->pid && (client->present & 1U << index)) {
            long long slots = monotonic_us() / SLOT_US;
            double sum = mean_percent(client, (unsigned)index, 0, slots * SLOT_US) * (double)slots * 100;
            stats->isRunning = 1;
            stats->sampleCount = FUZZED((unsigned)slots);
            stats->sumGpuUtil = FUZZED((unsigned long long)(sum + 0.5));
            stats->sumFbUtil = FUZZED((unsigned long long)(sum / 2 + 0.5));
            stats->startTime = FUZZED(1ULL);
            return leave(NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_NOT_FOUND);
}
#endif
