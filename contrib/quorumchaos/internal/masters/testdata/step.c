// A wall clock that can be stepped, for LD_PRELOAD. The file $QUORUMLOCK_CLOCK_STEP contains the
// step in seconds. The library allocates nothing: jemalloc reads the clock before anything else
// runs (libfaketime 0.9.10 ends Redis there).
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step;

__attribute__((constructor)) static void find(void) {
	const char *path = getenv("QUORUMLOCK_CLOCK_STEP");
	int fd = path ? open(path, O_RDONLY) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(0, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		step = at;
}

int clock_gettime(clockid_t which, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, which, t);
	if (!failed && which == CLOCK_REALTIME && step)
		t->tv_sec += *step;
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
