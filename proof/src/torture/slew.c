/*
 * Slews the clocks of a process, as NTP would: CLOCK_MONOTONIC and CLOCK_BOOTTIME go on from the start of the process at
 * the rate in SLEW_PPM, in parts per million of true time. CLOCK_MONOTONIC_RAW is the true one, which nobody slews.
 *
 * And it stops CLOCK_BOOTTIME while there is a number in the file SLEW_STOP: at this time, in nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long ppm;
static long long begin[2];
static const volatile int64_t *stop;

static long long nanoseconds(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((constructor)) static void start(void) {
    const char *rate = getenv("SLEW_PPM"), *file = getenv("SLEW_STOP");
    begin[0] = nanoseconds(CLOCK_MONOTONIC);
    begin[1] = nanoseconds(CLOCK_BOOTTIME);
    ppm = rate ? atoll(rate) : 0;
    void *page = mmap(NULL, sizeof *stop, PROT_READ, MAP_SHARED, open(file ? file : "", O_RDONLY), 0);
    /* Without it a run would prove less than it says. */
    if (page == MAP_FAILED) _exit(1);
    stop = page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    int slewed = clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME;
    if (failed == 0 && slewed) {
        long long true_time = time->tv_sec * 1000000000LL + time->tv_nsec;
        long long stopped = clock == CLOCK_BOOTTIME ? *stop : 0;
        if (stopped && true_time > stopped) true_time = stopped;
        /* A thousandth at a time, or it would overflow after some hours. */
        long long shown = true_time + (true_time - begin[clock == CLOCK_BOOTTIME]) / 1000 * ppm / 1000;
        time->tv_sec = shown / 1000000000LL;
        time->tv_nsec = shown % 1000000000LL;
    }
    return failed;
}
