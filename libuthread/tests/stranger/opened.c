// SPDX-License-Identifier: Apache-2.0
/* opened.c - a library whose thread-local variable lies in the static block. */

int opened_value(void);

static __thread volatile int value
	__attribute__((tls_model("initial-exec"))) = 42;

int opened_value(void)
{
	return value++;
}
