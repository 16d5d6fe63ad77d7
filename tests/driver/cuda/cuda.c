/*
 * A library by the name of CUDA's driver library. Whoever has it loaded looks like a CUDA program. Beside that it parks
 * processes as the driver does: what one has declared is put aside while it is checkpointed, and nobody lists it.
 *
 * Faults, each in the file `faults` as `global <fault> <argument> <function pattern>`: `cuda_error <code>` refuses,
 * `cuda_breaks <code>` refuses and leaves the process FAILED, `cuda_delay_ms <ms>` takes so long, `cuda_crash 1` ends
 * whoever calls, `cuda_missing 1` is a driver without that function, `cuda_version <n>` is another version.
 */
#define _GNU_SOURCE
#include "../declared.h"
#include "../generations.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define LENGTH 4096

enum result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
};

enum state { RUNNING, LOCKED, CHECKPOINTED, FAILED };
static const char *const WORDS[] = {"running", "locked", "checkpointed", "failed"};

static int initialized;

EXPORT int cuInit(unsigned flags) {
    char argument[64];
    read_faults();
    if (fault_is_on(SCOPE_GLOBAL, "cuda_error", "cuInit", argument)) {
        return atoi(argument);
    }
    initialized = flags == 0;
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuDriverGetVersion(int *version) {
    char argument[64];
    read_faults();
    *version = fault_is_on(SCOPE_GLOBAL, "cuda_version", "cuDriverGetVersion", argument) ? atoi(argument) : 13000;
    return SUCCESS;
}

static const char *name_of(int code) {
    switch (code) {
    case SUCCESS: return "CUDA_SUCCESS";
    case INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
    case ILLEGAL_STATE: return "CUDA_ERROR_ILLEGAL_STATE";
    case NOT_FOUND: return "CUDA_ERROR_NOT_FOUND";
    case NOT_READY: return "CUDA_ERROR_NOT_READY";
    default: return "CUDA_ERROR_UNKNOWN";
    }
}

EXPORT int cuGetErrorName(int code, const char **name) {
    *name = name_of(code);
    return SUCCESS;
}

EXPORT int cuGetErrorString(int code, const char **text) {
    return cuGetErrorName(code, text);
}

/* ---- one process ---- */

struct target {
    unsigned long long start_ticks;
    char state[LENGTH]; /* the file that says what it is; none: it runs */
    char aside[LENGTH]; /* what it has declared, while it is checkpointed */
    char client[LENGTH];
};

static unsigned long long started(int pid) {
    char path[64], line[1024];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) != NULL && strrchr(line, ')') != NULL) {
        char *next = strrchr(line, ')') + 1;
        for (int field = 3; field < 22 && next != NULL; field++) {
            next = strchr(next + 1, ' ');
        }
        ticks = next == NULL ? 0 : strtoull(next, NULL, 10);
    }
    if (file != NULL) {
        fclose(file);
    }
    return ticks != 0 && is_alive("/proc", (unsigned)pid, ticks) ? ticks : 0;
}

static int find(int pid, struct target *target) {
    char folder[LENGTH];
    target->start_ticks = started(pid);
    if (target->start_ticks == 0 || declared_folder() == NULL ||
        snprintf(folder, sizeof folder, "%s/checkpoint", declared_folder()) >= (int)sizeof folder) {
        return INVALID_VALUE;
    }
    mkdir(folder, 0700);
    bool fits = snprintf(target->state, LENGTH, "%.3900s/%d-%llu", folder, pid, target->start_ticks) < LENGTH &&
                snprintf(target->aside, LENGTH, "%.3900s/%d-%llu.held", folder, pid, target->start_ticks) < LENGTH &&
                snprintf(target->client, LENGTH, "%.3900s/clients/%d-%llu", declared_folder(), pid,
                         target->start_ticks) < LENGTH;
    return fits ? SUCCESS : INVALID_VALUE;
}

static enum state state_of(const struct target *target) {
    char word[32] = "";
    FILE *file = fopen(target->state, "re");
    if (file == NULL) {
        return RUNNING;
    }
    int read = fscanf(file, "%31s", word);
    fclose(file);
    for (int state = RUNNING; read == 1 && state <= FAILED; state++) {
        if (strcmp(word, WORDS[state]) == 0) {
            return (enum state)state;
        }
    }
    return FAILED;
}

static void enter(const struct target *target, enum state state) {
    char draft[LENGTH + 8];
    if (state == RUNNING) {
        unlink(target->state);
        return;
    }
    snprintf(draft, sizeof draft, "%s.new", target->state);
    FILE *file = fopen(draft, "we");
    if (file != NULL) {
        fprintf(file, "%s\n", WORDS[state]);
        fclose(file);
        rename(draft, target->state);
    }
}

/* Whoever declares something holds this lock; see simulated_gpu. */
static int lock_folder(void) {
    char path[LENGTH];
    snprintf(path, sizeof path, "%s/lock", declared_folder());
    int lock = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (lock >= 0) {
        flock(lock, LOCK_EX);
    }
    return lock;
}

static bool there_is_room_for(const struct target *target) {
    struct device devices[MAX_DEVICES] = {0};
    unsigned long long wanted[MAX_DEVICES] = {0}, bytes;
    char line[256];
    unsigned device;
    size_t present = declared_devices(devices), clients;
    FILE *file = fopen(target->aside, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "mem %u %llu", &device, &bytes) == 2 && device < MAX_DEVICES) {
            wanted[device] = bytes;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    const struct client *others = declared_clients(&clients);
    for (device = 0; device < present; device++) {
        unsigned long long used = devices[device].memory_total / 160;
        for (size_t i = 0; i < clients; i++) {
            used += others[i].memory[device];
        }
        if (wanted[device] > 0 && used + wanted[device] > devices[device].memory_total) {
            return false;
        }
    }
    return true;
}

/* ---- the calls ---- */

/* Faults first, which may not return; then whether the process is in the state that `function` needs. */
static int begin(const char *function, int pid, enum state needed, struct target *target) {
    char argument[64];
    read_faults();
    count_call(function);
    if (!initialized) {
        return NOT_INITIALIZED;
    }
    int found = find(pid, target);
    if (found != SUCCESS) {
        return found;
    }
    if (fault_is_on(SCOPE_GLOBAL, "cuda_delay_ms", function, argument)) {
        struct timespec pause = {atol(argument) / 1000, (atol(argument) % 1000) * 1000000};
        nanosleep(&pause, NULL);
    }
    if (fault_is_on(SCOPE_GLOBAL, "cuda_crash", function, NULL)) {
        raise(SIGSEGV);
    }
    if (fault_is_on(SCOPE_GLOBAL, "cuda_breaks", function, argument)) {
        enter(target, FAILED);
        return atoi(argument);
    }
    if (fault_is_on(SCOPE_GLOBAL, "cuda_error", function, argument)) {
        return atoi(argument);
    }
    return state_of(target) == needed ? SUCCESS : ILLEGAL_STATE;
}

EXPORT int cuCheckpointProcessGetState(int pid, int *state) {
    struct target target;
    char argument[64];
    read_faults();
    count_call("cuCheckpointProcessGetState");
    if (fault_is_on(SCOPE_GLOBAL, "cuda_error", "cuCheckpointProcessGetState", argument)) {
        return atoi(argument);
    }
    int found = initialized ? find(pid, &target) : NOT_INITIALIZED;
    if (found == SUCCESS) {
        *state = (int)state_of(&target);
    }
    return found;
}

EXPORT int cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
    *thread = pid;
    return SUCCESS;
}

EXPORT int cuCheckpointProcessLock(int pid, void *arguments) {
    struct target target;
    char argument[64];
    (void)arguments;
    int code = begin("cuCheckpointProcessLock", pid, RUNNING, &target);
    if (code == SUCCESS) {
        enter(&target, LOCKED);
        if (fault_is_on(SCOPE_GLOBAL, "cuda_late", "cuCheckpointProcessLock", argument)) {
            return NOT_READY; /* its time has run out, and the lock was left behind */
        }
    }
    return code;
}

EXPORT int cuCheckpointProcessCheckpoint(int pid, void *arguments) {
    struct target target;
    (void)arguments;
    int code = begin("cuCheckpointProcessCheckpoint", pid, LOCKED, &target);
    if (code == SUCCESS) {
        int lock = lock_folder();
        rename(target.client, target.aside);
        enter(&target, CHECKPOINTED);
        close(lock);
    }
    return code;
}

EXPORT int cuCheckpointProcessRestore(int pid, void *arguments) {
    struct target target;
    (void)arguments;
    int code = begin("cuCheckpointProcessRestore", pid, CHECKPOINTED, &target);
    if (code == SUCCESS) {
        int lock = lock_folder();
        if (there_is_room_for(&target)) {
            rename(target.aside, target.client);
            enter(&target, LOCKED);
        } else {
            code = OUT_OF_MEMORY;
        }
        close(lock);
    }
    return code;
}

EXPORT int cuCheckpointProcessUnlock(int pid, void *arguments) {
    struct target target;
    (void)arguments;
    int code = begin("cuCheckpointProcessUnlock", pid, LOCKED, &target);
    if (code == SUCCESS) {
        enter(&target, RUNNING);
    }
    return code;
}

/* How cuda.bindings finds every function but this one. */
EXPORT int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *found) {
    (void)version;
    (void)flags;
    read_faults();
    *function = fault_is_on(SCOPE_GLOBAL, "cuda_missing", symbol, NULL) ? NULL : dlsym(RTLD_DEFAULT, symbol);
    if (*function == NULL) {
        void *here = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        bool missing = fault_is_on(SCOPE_GLOBAL, "cuda_missing", symbol, NULL);
        *function = here == NULL || missing ? NULL : dlsym(here, symbol);
    }
    if (found != NULL) {
        *found = *function == NULL ? 1 : 0;
    }
    return *function == NULL ? NOT_FOUND : SUCCESS;
}
