/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openmp.c: loops, reductions, critical sections, tasks and barriers of OpenMP, with as
 * many threads as OMP_NUM_THREADS says. For `uthread-run`; exit status 1: a sum is wrong.
 */
#include <stdio.h>

#define N 20000000l

static double area(void)
{
	double sum = 0;
	long i;

#pragma omp parallel for reduction(+ : sum)
	for (i = 0; i < N; i++) {
		const double x = ((double)i + 0.5) / (double)N;

		sum += 4.0 / (1.0 + x * x);
	}
	return sum / (double)N;
}

static long fib(int n)
{
	long a, b;

	if (n < 2)
		return n;
	if (n < 16)
		return fib(n - 1) + fib(n - 2);
#pragma omp task shared(a)
	a = fib(n - 1);
#pragma omp task shared(b)
	b = fib(n - 2);
#pragma omp taskwait
	return a + b;
}

static long rounds(void)
{
	long count = 0, i;

#pragma omp parallel private(i)
	for (i = 0; i < 2000; i++) {
#pragma omp barrier
#pragma omp single
		count++;
	}
#pragma omp parallel for
	for (i = 0; i < 200000; i++) {
#pragma omp critical
		count++;
	}
	return count;
}

int main(void)
{
	const double pi = area();
	const long count = rounds();
	long f = 0;

#pragma omp parallel
#pragma omp single
	f = fib(30);
	if (pi < 3.141592 || pi > 3.141593 || f != 832040 || count != 202000) {
		fprintf(stderr, "%f, %ld, %ld\n", pi, f, count);
		return 1;
	}
	return 0;
}
