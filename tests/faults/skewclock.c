/* Preloaded into a process, moves its clocks: two 64-bit numbers of seconds in the file that
   MCPD_TEST_SKEW names, the wall clock's and the monotonic one's, may change at any time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *skew;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MCPD_TEST_SKEW");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = fd < 0 ? MAP_FAILED : mmap(0, 16, PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED) skew = found;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, at);
    if (skew && result == 0) {
        if (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) at->tv_sec += skew[0];
        if (which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_COARSE) at->tv_sec += skew[1];
    }
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
