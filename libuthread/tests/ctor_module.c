/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctor_module.c - a library whose constructor and destructor look at its
 * thread-local variable and call back who opens it: the addresses of two
 * functions are in the environment, because it knows nothing of the program.
 */
#include <stdint.h>
#include <stdlib.h>

int *module_value(void);

static __thread int value __attribute__((tls_model("initial-exec"))) = 42;

int *module_value(void)
{
	return &value;
}

static void call_back(const char *name)
{
	const char *at = getenv(name);
	void (*fn)(int *(*)(void));

	*(uintptr_t *)&fn = at ? strtoul(at, NULL, 16) : 0;
	if (fn)
		fn(module_value);
}

__attribute__((constructor)) static void begin(void)
{
	call_back("AT_OPEN");
}

__attribute__((destructor)) static void end(void)
{
	call_back("AT_CLOSE");
}
