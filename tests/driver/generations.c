/* "Known:" and "Ours:" mean what they mean in nvml_standin.c. */
#define _GNU_SOURCE
#include "generations.h"

#include "declared.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_KNOWN 256
#define MAX_LEVELS 32
#define PATH_LENGTH 4096

/* Who was looked for. A process that was not found is over: it lived when it declared. */
static struct known {
    unsigned pid;
    unsigned long long start_ticks;
    unsigned host; /* 0: over */
    unsigned here; /* 0: no such process in the namespace of whoever asks */
} known[MAX_KNOWN];
static size_t known_count;

static size_t read_file(const char *path, char *text, size_t room) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, room - 1);
    if (file >= 0) {
        close(file);
    }
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

bool is_alive(const char *proc, unsigned pid, unsigned long long start_ticks) {
    char path[PATH_LENGTH], text[1024];
    char state = 'X';
    unsigned long long started = 0;
    if (snprintf(path, sizeof path, "%s/%u/stat", proc, pid) >= (int)sizeof path ||
        read_file(path, text, sizeof text) == 0) {
        return false;
    }
    char *after_name = strrchr(text, ')'); /* the name may itself hold blanks and brackets */
    return after_name != NULL &&
           sscanf(after_name + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                  &state, &started) == 2 &&
           started == start_ticks && strchr("ZXx", state) == NULL;
}

/* The /proc that shows every process; that of whoever asks, if it lives in the host's namespace. */
static bool all_processes(char root[PATH_LENGTH]) {
    char path[PATH_LENGTH + 8];
    const char *folder = declared_folder();
    bool is_apart = folder != NULL && snprintf(root, PATH_LENGTH, "%s/host-proc", folder) < PATH_LENGTH &&
                    snprintf(path, sizeof path, "%s/uptime", root) > 0 && access(path, R_OK) == 0;
    if (!is_apart) {
        strcpy(root, "/proc");
    }
    return is_apart;
}

/* The pids of a process in its own and all outer namespaces, the host's first. */
static size_t pids_of(const char *root, unsigned host, unsigned pids[MAX_LEVELS]) {
    char path[PATH_LENGTH], text[8192];
    size_t count = 0;
    int used;
    if (snprintf(path, sizeof path, "%s/%u/status", root, host) >= (int)sizeof path ||
        read_file(path, text, sizeof text) == 0) {
        return 0;
    }
    char *next = strstr(text, "\nNSpid:");
    for (next = next ? next + 7 : NULL; next && count < MAX_LEVELS && sscanf(next, "%u%n", &pids[count], &used) == 1;) {
        count++;
        next += used;
    }
    return count;
}

/* Ours: who lives in a namespace inside that of whoever asks is called as if it were foreign. */
static bool is_neighbour(const char *root, unsigned host) {
    char path[PATH_LENGTH], theirs[64] = "", ours[64] = "";
    if (snprintf(path, sizeof path, "%s/%u/ns/pid", root, host) >= (int)sizeof path ||
        readlink(path, theirs, sizeof theirs - 1) < 0) {
        return false; /* the processes of another container may not be looked into */
    }
    return readlink("/proc/self/ns/pid", ours, sizeof ours - 1) > 0 && strcmp(theirs, ours) == 0;
}

static void look_for(struct known *one) {
    char root[PATH_LENGTH];
    unsigned pids[MAX_LEVELS];
    bool is_apart = all_processes(root);
    DIR *directory = opendir(root);
    for (struct dirent *entry; directory != NULL && one->host == 0 && (entry = readdir(directory)) != NULL;) {
        unsigned host = (unsigned)atoi(entry->d_name);
        if (host > 0 && is_alive(root, host, one->start_ticks)) {
            size_t count = pids_of(root, host, pids);
            if (count > 0 && pids[count - 1] == one->pid) {
                one->host = host;
                one->here = !is_apart ? host : is_neighbour(root, host) ? one->pid : 0;
            }
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
}

static const struct known *known_as(unsigned pid, unsigned long long start_ticks) {
    char root[PATH_LENGTH];
    for (size_t i = 0; i < known_count; i++) {
        if (known[i].pid == pid && known[i].start_ticks == start_ticks) {
            all_processes(root);
            return known[i].host != 0 && is_alive(root, known[i].host, start_ticks) ? &known[i] : NULL;
        }
    }
    known_count = known_count < MAX_KNOWN ? known_count : 0;
    struct known *one = &known[known_count++];
    *one = (struct known){.pid = pid, .start_ticks = start_ticks};
    look_for(one);
    return one->host != 0 ? one : NULL;
}

bool called_by(const char *generation, unsigned pid, unsigned long long start_ticks, struct called *called) {
    const struct known *one = known_as(pid, start_ticks);
    if (one == NULL) {
        return false;
    }
    *called = (struct called){.listed = one->here, .sampled = one->host, .host = one->host};
    if (strcmp(generation, "535.104") == 0) {
        called->listed = one->host; /* Known: the driver knows nothing of namespaces */
    } else if (strcmp(generation, "535.113") == 0) {
        called->memory_lost = one->here != one->host; /* Known: looked up by the pid of the namespace */
    } else if (strcmp(generation, "570") == 0 && one->here != 0) {
        called->sampled = one->here; /* Known: whoever is foreign is sampled by the host's pid all the same */
    }
    return true; /* Known: 565 lists the pids of the namespace and samples those of the host */
}
