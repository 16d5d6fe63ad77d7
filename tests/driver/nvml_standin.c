/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1 at its own ABI, for machines without a GPU. It answers for real processes
 * that declare what they hold and compute (declared.h), and can be told to fail in the ways drivers do.
 *
 * "Header:" marks what follows the comments of nvml.h. "Known:" marks what drivers were seen to do where the header is
 * silent or differs. "Ours:" marks a choice of this file that no test should take for a fact about drivers.
 *
 * Built with -DSTANDIN_ONLY_V2 it is an old driver: process lists only as _v2, memory only as v1, and none of the
 * newer calls. With -DSTANDIN_ONLY_V1 as well the lists are of the first form alone.
 */
#define _GNU_SOURCE
#include "standin.h"

#include "fuzz.h"
#include "ring.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlDevice_st devices[MAX_DEVICES];
static size_t device_count;
static unsigned users; /* Header: initialisation counts references */
static unsigned opened;
static long long clock_offset_us;

static const struct {
    const char *name;
    nvmlReturn_t code;
    const char *text;
} answers[] = {
    {"SUCCESS", NVML_SUCCESS, "Success"},
    {"UNINITIALIZED", NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {"INVALID_ARGUMENT", NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {"NOT_SUPPORTED", NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {"NO_PERMISSION", NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
    {"NOT_FOUND", NVML_ERROR_NOT_FOUND, "Not Found"},
    {"INSUFFICIENT_SIZE", NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {"DRIVER_NOT_LOADED", NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {"TIMEOUT", NVML_ERROR_TIMEOUT, "Timeout"},
    {"FUNCTION_NOT_FOUND", NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
    {"GPU_IS_LOST", NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    {"RESET_REQUIRED", NVML_ERROR_RESET_REQUIRED, "GPU requires reset"},
    {"LIB_RM_VERSION_MISMATCH", NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
    {"MEMORY", NVML_ERROR_MEMORY, "Insufficient Memory"},
    {"ARGUMENT_VERSION_MISMATCH", NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
    {"GPU_NOT_FOUND", NVML_ERROR_GPU_NOT_FOUND, "No GPUs were found"},
    {"UNKNOWN", NVML_ERROR_UNKNOWN, "Unknown Error"},
};

nvmlReturn_t code_of(const char *name) {
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (strcmp(answers[i].name, name) == 0) {
            return answers[i].code;
        }
    }
    return NVML_ERROR_UNKNOWN;
}

/* ---- entering and leaving ---- */

/* Takes the lock. `scope` is the index of a device or SCOPE_GLOBAL. */
static nvmlReturn_t enter(int scope, const char *function) {
    char argument[64];
    pthread_mutex_lock(&lock);
    read_faults();
    count_call(function);
    if (fault_is_on(scope, "slow_ms", function, argument)) {
        pthread_mutex_unlock(&lock); /* a slow call does not hold up a call on another thread */
        usleep((useconds_t)atoi(argument) * 1000);
        pthread_mutex_lock(&lock);
        read_faults();
    }
    if (fault_is_on(scope, "error", function, argument)) {
        return code_of(argument);
    }
    return (nvmlReturn_t)fuzz_error(function);
}

nvmlReturn_t leave(nvmlReturn_t answer) {
    pthread_mutex_unlock(&lock);
    return answer;
}

nvmlReturn_t enter_system(const char *function) {
    nvmlReturn_t answer = enter(SCOPE_GLOBAL, function);
    return answer != NVML_SUCCESS ? answer : users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
}

nvmlReturn_t enter_device(nvmlDevice_t device, const char *function, int *index, int *instance) {
    bool valid = device >= devices && device < devices + MAX_DEVICES;
    *index = valid ? (int)(device - devices) : SCOPE_GLOBAL;
    *instance = WHOLE;
    if (!valid) {
        valid = is_instance_handle(device, index, instance);
    }
    nvmlReturn_t answer = enter(*index, function);
    if (answer != NVML_SUCCESS) {
        return answer;
    }
    if (users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!valid || (size_t)*index >= device_count || (*instance != WHOLE && *instance >= instances_on(*index))) {
        return NVML_ERROR_INVALID_ARGUMENT; /* Header: the handle of an instance that is gone is invalid */
    }
    /* Known: every call for a device that fell off the bus says so, also those that need no bus. */
    return fault_is_on(*index, "lost", function, NULL) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

unsigned lives(void) {
    return opened;
}

const struct device *declared_as(int index) {
    return &devices[index].declared;
}

nvmlReturn_t give_text(char *buffer, unsigned length, const char *text) {
    if (buffer == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (strlen(text) + 1 > length) {
        return NVML_ERROR_INSUFFICIENT_SIZE; /* Header */
    }
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

/* ---- what a device holds and does ---- */

/* Ours: instances share the memory of their device evenly. */
static unsigned long long total_of(int index, int instance) {
    unsigned long long total = declared_as(index)->memory_total;
    return instance == WHOLE ? total : total / (unsigned)instances_on(index);
}

static unsigned long long allocated_on(int index, int instance) {
    size_t count;
    unsigned long long sum = 0, most = total_of(index, instance) - RESERVED(total_of(index, instance));
    const struct client *clients = declared_clients(&count);
    for (size_t i = 0; i < count; i++) {
        sum += is_on(&clients[i], index, instance) ? clients[i].memory[index] : 0;
    }
    return sum < most ? sum : most;
}

double percent_on(int index, int instance, long long from, long long to) {
    size_t count;
    double sum = 0;
    const struct client *clients = declared_clients(&count);
    for (size_t i = 0; i < count; i++) {
        sum += is_on(&clients[i], index, instance) ? mean_percent(&clients[i], (unsigned)index, from, to) : 0;
    }
    return sum < 100 ? sum : 100;
}

/* Ours: over the last second; the header allows periods from 1/6 to 1 second. */
static double percent_now(int index) {
    long long now = monotonic_us();
    return percent_on(index, WHOLE, now - 1000000, now);
}

/* ---- process lists ---- */

struct list {
    nvmlProcessInfo_v2_t *rows;
    size_t count, room;
};

static void add_row(struct list *list, unsigned pid, unsigned long long memory, int instance) {
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 64;
        list->rows = realloc(list->rows, list->room * sizeof *list->rows);
        if (list->rows == NULL) {
            abort();
        }
    }
    list->rows[list->count++] = (nvmlProcessInfo_v2_t){
        .pid = pid,
        .usedGpuMemory = memory,
        .gpuInstanceId = instance == WHOLE ? 0xFFFFFFFF : (unsigned)instance + 1, /* Header: when MIG is off */
        .computeInstanceId = instance == WHOLE ? 0xFFFFFFFF : 0,
    };
}

/* `record` is how many bytes a row takes: the first form of the lists has no instances. */
static nvmlReturn_t list_processes(int index, int instance, int kind, const char *function, unsigned *count,
                                   void *rows, size_t record) {
    static struct list list; /* under the lock */
    size_t clients;
    list.count = 0;
    const struct client *client = declared_clients(&clients);
    /* Known: in a container some drivers list nobody, or memory 0, while the device's own figures go on as before. */
    bool hidden = fault_is_on(index, "hide_procs", function, NULL);
    bool no_memory = fault_is_on(index, "zero_memory", function, NULL);
    /* Header: under WDDM the memory of a process is never available. Known: under WSL2 likewise. */
    bool not_available = fault_is_on(index, "memory_not_available", function, NULL);
    for (size_t i = 0; i < clients && !hidden; i++, client++) {
        if ((client->kinds & kind) && (client->present & 1U << index) && client->reported_pid != 0 &&
            is_on(client, index, instance)) {
            add_row(&list, client->reported_pid,
                    not_available ? (unsigned long long)NVML_VALUE_NOT_AVAILABLE
                    : no_memory || client->memory_lost ? 0
                                                       : client->memory[index],
                    instance);
        }
    }
    if (kind == COMPUTE && fault_is_on(index, "bad_list", function, NULL)) {
        add_row(&list, 0, 0, WHOLE);
        add_row(&list, 4242, declared_as(index)->memory_total * 2, WHOLE);
    }
    if (list.count > 0 && fuzz_strikes()) {
        add_row(&list, list.rows[0].pid, list.rows[0].usedGpuMemory, instance);
    }
    for (size_t i = 0; i < list.count; i++) {
        list.rows[i].pid = fuzz_pid(list.rows[i].pid);
        list.rows[i].usedGpuMemory = fuzz_number(list.rows[i].usedGpuMemory);
    }
    if (count == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (*count < list.count) {
        *count = fuzz_count((unsigned)list.count);
        return NVML_ERROR_INSUFFICIENT_SIZE; /* Header: with room 0 this is how the size is asked for */
    }
    if (list.count > 0 && rows == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = fuzz_count((unsigned)list.count); /* Header: the size query says SUCCESS only if there are none */
    /* Known: some 535 drivers used a longer structure under the same version, so that later rows were garbage. */
    char longer[64];
    size_t stride = fault_is_on(index, "long_rows", function, longer) ? (size_t)atoi(longer) : record;
    for (size_t i = 0; i < list.count; i++) {
        memset((char *)rows + i * stride, 0, stride);
        memcpy((char *)rows + i * stride, &list.rows[i], record);
    }
    return NVML_SUCCESS;
}

/* ---- samples ---- */

long long offset_us(void) {
    char argument[64];
    return clock_offset_us + (fault_is_on(SCOPE_GLOBAL, "clock_offset_us", "", argument) ? atoll(argument) : 0);
}

/* Header: NOT_FOUND when there is no sample. Known: some drivers say SUCCESS with a count of 0 instead. */
static nvmlReturn_t no_samples(int index, const char *function) {
    return fault_is_on(index, "empty_is_success", function, NULL) ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* Known: between asking for the size and for the rows somebody may be born. `born` lets it happen now and then. */
static unsigned size_of(int index, const char *function, size_t count) {
    static unsigned times; /* under the lock */
    bool too_few = fault_is_on(index, "born", function, NULL) && times++ % 3 == 0;
    return fuzz_count((unsigned)count - too_few);
}

/* ---- the ABI: only what is below is exported ---- */
#pragma GCC visibility push(default)

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    char argument[64];
    struct timespec real, monotonic;
    nvmlReturn_t answer = enter(SCOPE_GLOBAL, __func__);
    (void)flags;
    if (answer != NVML_SUCCESS) {
        return leave(answer);
    }
    if (declared_folder() == NULL) {
        return leave(NVML_ERROR_DRIVER_NOT_LOADED);
    }
    if (fault_is_on(SCOPE_GLOBAL, "init_error", __func__, argument)) {
        return leave(code_of(argument));
    }
    if (users++ == 0) {
        opened++;
        memset(devices, 0, sizeof devices);
        struct device declared[MAX_DEVICES] = {0};
        device_count = declared_devices(declared);
        for (size_t i = 0; i < device_count; i++) {
            devices[i].declared = declared[i];
        }
        clock_gettime(CLOCK_REALTIME, &real);
        clock_gettime(CLOCK_MONOTONIC, &monotonic);
        clock_offset_us =
            (real.tv_sec - monotonic.tv_sec) * 1000000LL + (real.tv_nsec - monotonic.tv_nsec) / 1000;
    }
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void) {
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void) {
    SYSTEM;
    users--;
    return leave(NVML_SUCCESS);
}

const char *nvmlErrorString(nvmlReturn_t result) {
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (answers[i].code == result) {
            return answers[i].text;
        }
    }
    return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    SYSTEM;
    return leave(give_text(version, length, "595.45.04"));
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    SYSTEM;
    return leave(give_text(version, length, "13.595.45.04"));
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    SYSTEM;
    NEED(version);
    *version = 13020;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    SYSTEM;
    NEED(count);
    *count = fuzz_count((unsigned)device_count);
    return leave(NVML_SUCCESS);
}

/* Known: the handle of a lost device is refused; those of the others are given. */
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned wanted, nvmlDevice_t *device) {
    if (wanted >= MAX_DEVICES || device == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    DEVICE(&devices[wanted]);
    *device = &devices[index];
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    SYSTEM;
    NEED(uuid && device);
    for (size_t i = 0; i < device_count; i++) {
        if (strcmp(devices[i].declared.uuid, uuid) == 0) {
            *device = &devices[i];
            return leave(NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    DEVICE(device);
    if (instance != WHOLE) {
        char full[160];
        snprintf(full, sizeof full, "%s MIG 1g.10gb", declared_as(index)->name);
        return leave(give_text(name, length, full));
    }
    return leave(give_text(name, length, declared_as(index)->name));
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    DEVICE(device);
    if (instance != WHOLE) {
        char full[128];
        snprintf(full, sizeof full, "MIG-%s-%d", declared_as(index)->uuid + strlen("GPU-"), instance);
        return leave(give_text(uuid, length, full));
    }
    return leave(give_text(uuid, length, declared_as(index)->uuid));
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *number) {
    DEVICE(device);
    NEED(number);
    *number = (unsigned)index;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor) {
    return nvmlDeviceGetIndex(device, minor);
}

/* Header: v1 counts the reserved memory as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    DEVICE(device);
    NEED(memory);
    memory->total = FUZZED(total_of(index, instance));
    memory->used = FUZZED(RESERVED(total_of(index, instance)) + allocated_on(index, instance));
    memory->free = memory->total - memory->used;
    return leave(NVML_SUCCESS);
}

/* Ours: free + used + reserved = total, as the header's words suggest. */
#ifndef STANDIN_ONLY_V2
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    DEVICE(device);
    NEED(memory);
    if (memory->version != nvmlMemory_v2) {
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    memory->total = FUZZED(total_of(index, instance));
    memory->reserved = FUZZED(RESERVED(total_of(index, instance)));
    memory->used = FUZZED(allocated_on(index, instance));
    memory->free = memory->total - memory->reserved - memory->used;
    return leave(NVML_SUCCESS);
}
#endif

/* Header: not on MIG. Known: the value can stick at 100 while nobody computes. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    DEVICE(device);
    NEED(utilization);
    if (is_mig(index)) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    bool stuck = fault_is_on(index, "stuck_at_100", __func__, NULL);
    utilization->gpu = FUZZED(stuck ? 100 : (unsigned)(percent_now(index) + 0.5));
    utilization->memory = utilization->gpu / 2;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *celsius) {
    DEVICE(device);
    NEED(celsius && sensor == NVML_TEMPERATURE_GPU);
    if (instance != WHOLE) {
        return leave(NVML_ERROR_NOT_SUPPORTED); /* Ours: there is one for the whole device */
    }
    *celsius = FUZZED(30 + (unsigned)(percent_now(index) * 0.4));
    return leave(NVML_SUCCESS);
}

#ifndef STANDIN_ONLY_V2
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
    DEVICE(device);
    NEED(temperature && temperature->sensorType == NVML_TEMPERATURE_GPU);
    if (instance != WHOLE) {
        return leave(NVML_ERROR_NOT_SUPPORTED); /* Ours: there is one for the whole device */
    }
    if (temperature->version != nvmlTemperature_v1) {
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    temperature->temperature = FUZZED(30 + (int)(percent_now(index) * 0.4));
    return leave(NVML_SUCCESS);
}
#endif

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    DEVICE(device);
    NEED(milliwatts);
    if (instance != WHOLE) {
        return leave(NVML_ERROR_NOT_SUPPORTED); /* Ours: there is one for the whole device */
    }
    *milliwatts = FUZZED(60000 + (unsigned)(percent_now(index) * 6000));
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    DEVICE(device);
    NEED(current && pending && instance == WHOLE);
    *current = *pending = is_mig(index) ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
    return leave(NVML_SUCCESS);
}

#define LIST(kind_name, kind, version)                                                                             \
    nvmlReturn_t nvmlDeviceGet##kind_name##RunningProcesses_##version(nvmlDevice_t device, unsigned *count,        \
                                                                      nvmlProcessInfo_v2_t *infos) {               \
        DEVICE(device);                                                                                            \
        return leave(list_processes(index, instance, kind, __func__, count, infos, sizeof *infos));                \
    }

/* Header: the first form has no version in its name. */
#define FIRST_LIST(kind_name, kind)                                                                                \
    nvmlReturn_t nvmlDeviceGet##kind_name##RunningProcesses(nvmlDevice_t device, unsigned *count,                  \
                                                            nvmlProcessInfo_v1_t *infos) {                         \
        DEVICE(device);                                                                                            \
        return leave(list_processes(index, instance, kind, __func__, count, infos, sizeof *infos));                \
    }

FIRST_LIST(Compute, COMPUTE)
FIRST_LIST(Graphics, GRAPHICS)
FIRST_LIST(MPSCompute, MPS)
#ifndef STANDIN_ONLY_V1
LIST(Compute, COMPUTE, v2)
LIST(Graphics, GRAPHICS, v2)
LIST(MPSCompute, MPS, v2)
#endif
#ifndef STANDIN_ONLY_V2
LIST(Compute, COMPUTE, v3)
LIST(Graphics, GRAPHICS, v3)
LIST(MPSCompute, MPS, v3)
#endif

/* Header: without a buffer this asks for the size. Known: the answer to that is INSUFFICIENT_SIZE. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
                                             unsigned *count, unsigned long long last_seen) {
    DEVICE(device);
    NEED(count);
    if (is_mig(index)) {
        return leave(NVML_ERROR_NOT_SUPPORTED); /* Header */
    }
    const struct samples *samples = ring_read(index, __func__, last_seen, offset_us());
    if (samples->count == 0) {
        *count = 0;
        return leave(no_samples(index, __func__));
    }
    if (utilization == NULL || *count < samples->count) {
        *count = size_of(index, __func__, samples->count);
        return leave(NVML_ERROR_INSUFFICIENT_SIZE);
    }
    *count = fuzz_count((unsigned)samples->count);
    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *row = &samples->rows[i];
        utilization[i] = (nvmlProcessUtilizationSample_t){
            .pid = row->pid, .timeStamp = row->stamp, .smUtil = row->percent, .memUtil = row->percent / 2};
    }
    return leave(NVML_SUCCESS);
}

#ifndef STANDIN_ONLY_V2
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info) {
    DEVICE(device);
    NEED(info);
    if (info->version != nvmlProcessesUtilizationInfo_v1) {
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH); /* Header */
    }
    if (is_mig(index)) {
        return leave(NVML_ERROR_NOT_SUPPORTED); /* Header */
    }
    struct samples *samples = ring_read(index, __func__, info->lastSeenTimeStamp, offset_us());
    ring_add_jpeg(index, __func__, samples, offset_us());
    if (samples->count == 0) {
        info->processSamplesCount = 0;
        return leave(no_samples(index, __func__));
    }
    if (info->procUtilArray == NULL || info->processSamplesCount < samples->count) {
        info->processSamplesCount = size_of(index, __func__, samples->count);
        return leave(NVML_ERROR_INSUFFICIENT_SIZE); /* Header */
    }
    info->processSamplesCount = fuzz_count((unsigned)samples->count);
    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *row = &samples->rows[i];
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = row->stamp, .pid = row->pid, .smUtil = row->percent,
            .jpgUtil = row->jpeg_percent};
    }
    return leave(NVML_SUCCESS);
}
#endif
