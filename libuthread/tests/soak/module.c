/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - a library for storm_dlopen.c, built with thread-local variables
 * of several sizes: BYTES of them. */
__thread struct {
	unsigned tag;
	char name[12];
	unsigned char rest[BYTES];
} module_tls = { 0, "module", { 0 } };

unsigned *module_tag(void)
{
	return &module_tls.tag;
}

const char *module_name(void)
{
	return module_tls.name;
}

/* Fills the rest with `with`; returns what every byte of it was before, -1
 * when they were not alike. */
int module_fill(unsigned char with)
{
	int was = module_tls.rest[0];
	unsigned i;

	for (i = 0; i < BYTES; i++) {
		if (module_tls.rest[i] != was)
			return -1;
		module_tls.rest[i] = with;
	}
	return was;
}

unsigned module_bytes(void)
{
	return BYTES;
}
