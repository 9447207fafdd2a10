/*
 * Slews the clocks of a process, as NTP would: CLOCK_MONOTONIC and CLOCK_BOOTTIME go on from the start of the process at
 * the rate in SLEW_PPM, in parts per million of true time. CLOCK_MONOTONIC_RAW is the true one, which nobody slews.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long ppm;
static long long begin[2];

static long long nanoseconds(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((constructor)) static void start(void) {
    const char *rate = getenv("SLEW_PPM");
    begin[0] = nanoseconds(CLOCK_MONOTONIC);
    begin[1] = nanoseconds(CLOCK_BOOTTIME);
    ppm = rate ? atoll(rate) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (failed == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME)) {
        long long true_time = time->tv_sec * 1000000000LL + time->tv_nsec;
        /* A thousandth at a time, or it would overflow after some hours. */
        long long shown = true_time + (true_time - begin[clock == CLOCK_BOOTTIME]) / 1000 * ppm / 1000;
        time->tv_sec = shown / 1000000000LL;
        time->tv_nsec = shown % 1000000000LL;
    }
    return failed;
}
