/* Planted faults, in the sanitized build only: they prove that `make sanitize` can fail.

   The environment variable REQUEST_PURGATORY_PLANT names one of these faults. The core then commits
   it each time it acquires a lock:

       leak      memory that nothing refers to                         LeakSanitizer
       freed     a read of freed memory                                AddressSanitizer
       shift     a shift by more bits than the number has              UndefinedBehaviorSanitizer
       race      a counter that threads change without the GIL         ThreadSanitizer

   So the sanitizers are known to find each kind of fault in the modules in which they found
   none. */
#ifndef REQUEST_PURGATORY_PLANTED_H
#define REQUEST_PURGATORY_PLANTED_H

#include <Python.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void rp_plant_leak(void)
{
    static int planted;
    void *volatile block;
    if (planted++)
        return;
    block = malloc(48);
    block = NULL;
    (void)block;
}

static void rp_plant_freed(void)
{
    volatile char *block = malloc(48);
    free((void *)block);
    (void)block[0];
}

/* Not a signed overflow: Python's compiler flags have -fwrapv, which defines that behaviour. */
static void rp_plant_shift(void)
{
    volatile int number = 1, bits = 40;
    number = number << bits;
}

/* The thread stays without the GIL for a while. Acquiring the GIL orders its write before later
   writes of other threads, and ThreadSanitizer reports only unordered accesses. */
static void rp_plant_race(void)
{
    static int number;
    struct timespec nap = {0, 20000};
    Py_BEGIN_ALLOW_THREADS
    if (number < 1000) {
        number++;
        nanosleep(&nap, NULL);
    }
    Py_END_ALLOW_THREADS
}

static void rp_plant(void)
{
    const char *fault = getenv("REQUEST_PURGATORY_PLANT");
    if (fault == NULL)
        return;
    if (!strcmp(fault, "leak"))
        rp_plant_leak();
    else if (!strcmp(fault, "freed"))
        rp_plant_freed();
    else if (!strcmp(fault, "shift"))
        rp_plant_shift();
    else if (!strcmp(fault, "race"))
        rp_plant_race();
    else
        Py_FatalError("REQUEST_PURGATORY_PLANT must be leak, freed, shift or race");
}

#endif
