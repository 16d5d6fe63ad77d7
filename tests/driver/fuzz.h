/*
 * Answers that are wrong at random, from a seed: the fault `global fuzz SEED:errors|values|both [function pattern]`. The
 * caller holds a lock.
 *
 * errors: any call may fail with any code, or take a millisecond longer; what is answered is right.
 * values: counts, times and amounts may be anything; a pid is wrong only so that it can be seen, since nobody could tell
 *         a plausible wrong pid from a right one.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>

/* The code with which `function` shall fail now; 0: it shall not. The rest is about the function last asked about. */
int fuzz_error(const char *function);

/* Whether something that happens now and then shall happen now. */
bool fuzz_strikes(void);

/* `right`, or now and then any other number. */
unsigned long long fuzz_number(unsigned long long right);

/* `right`, or now and then a number that no process can have. */
unsigned fuzz_pid(unsigned right);

/* `right`, or now and then a count near it. */
unsigned fuzz_count(unsigned right);

/* The right value of any integer type, or now and then any other. */
#define FUZZED(value) ((__typeof__(value))fuzz_number((unsigned long long)(value)))

#endif
