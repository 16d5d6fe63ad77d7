#define _GNU_SOURCE
#include "declared.h"

#include "generations.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FAULTS 64
#define PATH_LENGTH 4096

/* A scan of all clients is reused for so long: several calls of one reading see one instant, as the driver is fast. */
#define REMEMBER_US 10000

const char *declared_folder(void) {
    const char *folder = getenv("JUPYTER_GPU_GUARD_SIMULATED_DIR");
    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

static bool path_of(char path[PATH_LENGTH], const char *name) {
    const char *folder = declared_folder();
    return folder != NULL && snprintf(path, PATH_LENGTH, "%s/%s", folder, name) < PATH_LENGTH;
}

static FILE *open_declared(const char *name) {
    char path[PATH_LENGTH];
    return path_of(path, name) ? fopen(path, "re") : NULL;
}

long long monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

size_t declared_devices(struct device devices[MAX_DEVICES]) {
    FILE *file = open_declared("devices");
    char line[512];
    size_t count = 0;
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned index;
        struct device device = {0};
        if (sscanf(line, "%u %79s %llu %95[^\n]", &index, device.uuid, &device.memory_total, device.name) == 4 &&
            index < MAX_DEVICES) {
            devices[index] = device;
            count = index + 1 > count ? index + 1 : count;
        }
    }
    fclose(file);
    return count;
}

/* ---- clients ---- */

static struct client *scan;
static size_t scan_count, scan_room;
static long long scan_at = -1;
static struct timespec scan_changed;

static int kinds_of(const char *text) {
    return (strchr(text, 'C') ? COMPUTE : 0) | (strchr(text, 'G') ? GRAPHICS : 0) | (strchr(text, 'M') ? MPS : 0);
}

static void read_line(struct client *client, const char *line) {
    char kinds[16];
    unsigned device;
    unsigned long long bytes;
    struct load load = {0};
    if (sscanf(line, "type %15s", kinds) == 1) {
        client->kinds = kinds_of(kinds);
    } else if (sscanf(line, "pid %u", &device) == 1) {
        client->reported_pid = client->sampled_pid = device;
    } else if (sscanf(line, "mem %u %llu", &device, &bytes) == 2 && device < MAX_DEVICES) {
        client->memory[device] = bytes;
        client->present |= 1U << device;
    } else if (client->load_count < MAX_LOADS &&
               (sscanf(line, "load %u %lld %lld %lf", &load.device, &load.from, &load.to, &load.percent) == 4 ||
                sscanf(line, "wave %u %lld %lf %lld %lf %lld", &load.device, &load.from, &load.percent, &load.high,
                       &load.low_percent, &load.low) == 6) &&
               load.device < MAX_DEVICES) {
        client->loads[client->load_count++] = load;
        client->present |= 1U << load.device;
    }
}

static void read_client(const char *folder, const char *name) {
    unsigned pid;
    unsigned long long start_ticks;
    int used = 0;
    char path[PATH_LENGTH], line[256], generation[64];
    if (sscanf(name, "%u-%llu%n", &pid, &start_ticks, &used) != 2 || name[used] != '\0' ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return;
    }
    struct called called = {.listed = pid, .sampled = pid, .host = pid};
    if (fault_is_on(SCOPE_GLOBAL, "generation", "", generation) ? !called_by(generation, pid, start_ticks, &called)
                                                                : !is_alive("/proc", pid, start_ticks)) {
        return;
    }
    FILE *file = open_declared(path);
    if (file == NULL) {
        return;
    }
    if (scan_count == scan_room) {
        size_t room = scan_room ? scan_room * 2 : 64;
        struct client *larger = realloc(scan, room * sizeof *scan);
        if (larger == NULL) {
            fclose(file);
            return;
        }
        scan = larger;
        scan_room = room;
    }
    struct client *client = &scan[scan_count];
    memset(client, 0, sizeof *client);
    client->pid = pid;
    client->reported_pid = called.listed;
    client->sampled_pid = called.sampled;
    client->host_pid = called.host;
    client->memory_lost = called.memory_lost;
    client->kinds = COMPUTE;
    while (fgets(line, sizeof line, file) != NULL) {
        read_line(client, line);
    }
    fclose(file);
    scan_count++;
}

static void read_folder(const char *folder) {
    char path[PATH_LENGTH];
    DIR *directory = path_of(path, folder) ? opendir(path) : NULL;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        read_client(folder, entry->d_name);
    }
    if (directory != NULL) {
        closedir(directory);
    }
}

const struct client *declared_clients(size_t *count) {
    char path[PATH_LENGTH], argument[64];
    struct stat folder = {0};
    long long now = monotonic_us(), remember = REMEMBER_US;
    if (!path_of(path, "clients") || stat(path, &folder) != 0) {
        *count = 0;
        return NULL;
    }
    if (fault_is_on(SCOPE_GLOBAL, "remember_ms", "", argument)) {
        remember = atoll(argument) * 1000; /* for measurements: a real driver does not read /proc */
    }
    bool changed = memcmp(&folder.st_mtim, &scan_changed, sizeof scan_changed) != 0;
    if (scan_at < 0 || changed || now - scan_at > remember) {
        scan_count = 0;
        read_folder("clients");
        if (fault_is_on(SCOPE_GLOBAL, "generation", "", NULL)) {
            read_folder("elsewhere/clients"); /* who declares cleans up after those that it cannot see */
        }
        scan_at = now;
        scan_changed = folder.st_mtim;
    }
    *count = scan_count;
    return scan;
}

/* Percent times microseconds since the wave began. */
static double area_of_wave(const struct load *wave, long long time) {
    long long since = time - wave->from, period = wave->high + wave->low;
    if (since <= 0) {
        return 0;
    }
    double one = wave->percent * wave->high + wave->low_percent * wave->low;
    long long rest = since % period;
    double part = rest < wave->high ? wave->percent * rest
                                    : wave->percent * wave->high + wave->low_percent * (rest - wave->high);
    return one * (double)(since / period) + part;
}

static double area_of(const struct load *load, long long from, long long to) {
    if (load->high > 0 || load->low > 0) {
        return area_of_wave(load, to) - area_of_wave(load, from);
    }
    long long begin = from > load->from ? from : load->from;
    long long end = load->to >= 0 && load->to < to ? load->to : to;
    return end > begin ? load->percent * (double)(end - begin) : 0;
}

double mean_percent(const struct client *client, unsigned device, long long from, long long to) {
    double area = 0;
    for (size_t i = 0; i < client->load_count; i++) {
        if (client->loads[i].device == device) {
            area += area_of(&client->loads[i], from, to);
        }
    }
    double mean = to > from ? area / (double)(to - from) : 0;
    return mean < 100 ? mean : 100;
}

/* ---- faults ---- */

static struct fault {
    int scope;
    char name[32];
    char argument[64];
    char pattern[128];
} faults[MAX_FAULTS];
static size_t fault_count;
static struct stat faults_seen;

static bool same_file(const struct stat *one, const struct stat *other) {
    return one->st_ino == other->st_ino && one->st_size == other->st_size &&
           memcmp(&one->st_mtim, &other->st_mtim, sizeof one->st_mtim) == 0;
}

void read_faults(void) {
    char path[PATH_LENGTH], line[512], scope[16];
    struct stat now = {0};
    if (!path_of(path, "faults") || stat(path, &now) != 0) {
        fault_count = 0;
        memset(&faults_seen, 0, sizeof faults_seen);
        return;
    }
    if (same_file(&now, &faults_seen)) {
        return;
    }
    FILE *file = open_declared("faults");
    fault_count = 0;
    while (file != NULL && fault_count < MAX_FAULTS && fgets(line, sizeof line, file) != NULL) {
        struct fault fault = {.argument = "1", .pattern = "*"};
        if (sscanf(line, "%15s %31s %63s %127s", scope, fault.name, fault.argument, fault.pattern) >= 2) {
            fault.scope = strcmp(scope, "all") == 0      ? SCOPE_ALL
                          : strcmp(scope, "global") == 0 ? SCOPE_GLOBAL
                                                         : atoi(scope);
            faults[fault_count++] = fault;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    faults_seen = now;
    scan_at = -1; /* clients may be called otherwise now */
}

bool fault_is_on(int scope, const char *name, const char *function, char argument[64]) {
    for (size_t i = 0; i < fault_count; i++) {
        const struct fault *fault = &faults[i];
        bool concerns = fault->scope == scope || (fault->scope == SCOPE_ALL && scope != SCOPE_GLOBAL);
        if (concerns && strcmp(fault->name, name) == 0 && strcmp(fault->argument, "0") != 0 &&
            fnmatch(fault->pattern, function, 0) == 0) {
            if (argument != NULL) {
                strcpy(argument, fault->argument);
            }
            return true;
        }
    }
    return false;
}

void count_call(const char *function) {
    char path[PATH_LENGTH], line[128];
    if (!path_of(path, "calls")) {
        return;
    }
    int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC); /* appending is atomic, also between processes */
    if (file >= 0) {
        int length = snprintf(line, sizeof line, "%s\n", function);
        if (write(file, line, (size_t)length) != length) {
            /* a lost count is no reason to fail a driver call */
        }
        close(file);
    }
}
