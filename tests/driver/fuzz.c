#define _GNU_SOURCE
#include "fuzz.h"

#include "declared.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_FOUND 6
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static char seen[64]; /* the argument from which `state` was made */
static unsigned long long state;
static unsigned one_in;

/* splitmix64: small, and any seed is a good one. */
static unsigned long long next(void) {
    unsigned long long z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
    return z ^ z >> 31;
}

static bool errors, values; /* what is wrong in the present call */

static void begin(const char *function) {
    char argument[64];
    errors = values = false;
    if (!fault_is_on(SCOPE_GLOBAL, "fuzz", function, argument)) {
        return;
    }
    if (strcmp(argument, seen) != 0) {
        strcpy(seen, argument);
        state = strtoull(argument, NULL, 10);
        one_in = 6U << state % 6; /* some seeds spoil nearly every reading, others few */
    }
    const char *kind = strchr(argument, ':');
    errors = kind == NULL || strcmp(kind, ":values") != 0;
    values = kind == NULL || strcmp(kind, ":errors") != 0;
}

static bool strikes(void) {
    return next() % one_in == 0;
}

int fuzz_error(const char *function) {
    /* Header: 1 to 30 and 999, less those that say that the whole driver is gone: they would end every reading. */
    static const int of_one_call[] = {2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 29, 30, 999};
    static const int of_the_driver[] = {1, 9, 12, 18, 28};
    begin(function);
    if (!errors || !strikes()) {
        return 0;
    }
    if (next() % 8 == 0) {
        usleep(1000);
        return 0;
    }
    if (next() % 100 == 0) {
        return of_the_driver[next() % LENGTH(of_the_driver)];
    }
    int code = of_one_call[next() % LENGTH(of_one_call)];
    /* Header: for samples this is no error, it means that nobody computed. */
    return code == NOT_FOUND && fnmatch("*Util*", function, 0) == 0 ? 999 : code;
}

bool fuzz_strikes(void) {
    return values && strikes();
}

unsigned long long fuzz_number(unsigned long long right) {
    if (!fuzz_strikes()) {
        return right;
    }
    switch (next() % 10) {
    case 0: return 0;
    case 1: return 1;
    case 2: return right - 1;
    case 3: return right + 1;
    case 4: return right * 2;
    case 5: return ~0ULL;     /* Header: not available */
    case 6: return ~0ULL - 1;
    case 7: return 1ULL << 31;
    case 8: return 1ULL << 63;
    default: return next() >> next() % 64;
    }
}

unsigned fuzz_pid(unsigned right) {
    static const unsigned nobody[] = {0, ~0U, 1U << 31, (1U << 22) + 1};
    return fuzz_strikes() ? nobody[next() % LENGTH(nobody)] : right;
}

unsigned fuzz_count(unsigned right) {
    if (!fuzz_strikes()) {
        return right;
    }
    switch (next() % 5) {
    case 0: return 0;
    case 1: return right > 0 ? right - 1 : 0;
    case 2: return right + 1;
    case 3: return right * 2 + 7;
    default: return right + (unsigned)(next() % 1000);
    }
}
