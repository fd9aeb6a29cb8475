/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_switch.c - what context_switch() and context_make() owe their callers.
 * One test a register, so that a failure names it.
 */
#include <fenv.h>
#include <unwind.h>

#include "base/context.h"
#include "util.h"

void context_entry(void);
void regs_switch(struct context *from, struct context *to, const uint64_t *in,
		 uint64_t *out);

#define ROUNDS SCALE(20000)
#define STACK (64u << 10)
#define DONTCARE 0xdeadu

static char stack[STACK] __attribute__((aligned(64)));
static struct context here, there;

#if defined(__x86_64__)
enum { RBX, RBP, R12, R13, R14, R15, MXCSR, FCW, NREGS };

/* Rounding, flush to zero and denormals are zero; exceptions stay masked. */
static uint64_t random_mxcsr(uint64_t r)
{
	return 0x1f80 | (r & 0xe040);
}

/* Rounding and precision (1 is reserved); exceptions stay masked. */
static uint64_t random_fcw(uint64_t r)
{
	return 0x7f | (r & 0xc00) | (r & 0x1000000 ? 0x300 : r & 0x200);
}

static void fill(uint64_t *v, uint64_t *seed)
{
	for (int i = 0; i < NREGS; i++)
		v[i] = test_random(seed);
	v[MXCSR] = random_mxcsr(v[MXCSR]);
	v[FCW] = random_fcw(v[FCW]);
}
#else
enum {
	X19,
	X20,
	X21,
	X22,
	X23,
	X24,
	X25,
	X26,
	X27,
	X28,
	X29,
	D8,
	D9,
	D10,
	D11,
	D12,
	D13,
	D14,
	D15,
	FPCR,
	NREGS
};

/* Rounding mode, flush to zero, default NaN. */
static void fill(uint64_t *v, uint64_t *seed)
{
	for (int i = 0; i < NREGS; i++)
		v[i] = test_random(seed);
	v[FPCR] &= 0x3c00000;
}
#endif

static uint64_t in_there[NREGS], out_there[NREGS];

static void other_side(void *seed)
{
	for (;;) {
		here.busy = 1;
		fill(in_there, seed);
		regs_switch(&there, &here, in_there, out_there);
	}
}

/* Both sides fill everything with noise; is register `reg` kept on both? */
static void check_kept(int reg)
{
	uint64_t seed = test_seed(), seed_there = ~seed | 1;
	uint64_t in[NREGS], out[NREGS], want;

	context_make(&there, stack + STACK, other_side, &seed_there);
	for (int i = 0; i < ROUNDS; i++) {
		fill(in, &seed);
		want = in_there[reg];
		there.busy = 1;
		regs_switch(&here, &there, in, out);
		if (out[reg] != in[reg] || (i && out_there[reg] != want)) {
			fprintf(stderr,
				"round %d: %#llx became %#llx here, "
				"%#llx became %#llx there\n",
				i, (unsigned long long)in[reg],
				(unsigned long long)out[reg],
				(unsigned long long)want,
				(unsigned long long)out_there[reg]);
			_exit(1);
		}
		CHECK_EQ(there.busy, 0);
	}
}

#define TEST_REG(name, reg)       \
	TEST(switch_keeps_##name) \
	{                         \
		check_kept(reg);  \
	}

#if defined(__x86_64__)
TEST_REG(rbx, RBX)
TEST_REG(rbp, RBP)
TEST_REG(r12, R12)
TEST_REG(r13, R13)
TEST_REG(r14, R14)
TEST_REG(r15, R15)
TEST_REG(mxcsr, MXCSR)
TEST_REG(x87_control_word, FCW)
#else
TEST_REG(x19, X19)
TEST_REG(x20, X20)
TEST_REG(x21, X21)
TEST_REG(x22, X22)
TEST_REG(x23, X23)
TEST_REG(x24, X24)
TEST_REG(x25, X25)
TEST_REG(x26, X26)
TEST_REG(x27, X27)
TEST_REG(x28, X28)
TEST_REG(x29, X29)
TEST_REG(d8, D8)
TEST_REG(d9, D9)
TEST_REG(d10, D10)
TEST_REG(d11, D11)
TEST_REG(d12, D12)
TEST_REG(d13, D13)
TEST_REG(d14, D14)
TEST_REG(d15, D15)
TEST_REG(fpcr, FPCR)
#endif

/* ---- the first frame ---- */

static struct {
	void *arg;
	uintptr_t frame;
	int rounding;
	int frames;
	uintptr_t last_ip;
	_Unwind_Reason_Code code;
} seen;

static void back(void)
{
	here.busy = 1;
	context_switch(&there, &here);
}

static void start(void (*entry)(void *), void *top)
{
	memset(&seen, 0, sizeof(seen));
	context_make(&there, top, entry, &seen);
	there.busy = 1;
	context_switch(&here, &there);
}

static void look_at_frame(void *arg)
{
	seen.arg = arg;
	seen.frame = (uintptr_t)__builtin_frame_address(0);
	back();
}

TEST(entry_gets_its_argument)
{
	start(look_at_frame, stack + STACK);
	CHECK(seen.arg == &seen);
}

TEST(entry_has_an_aligned_stack_whatever_the_top)
{
	for (int off = 0; off < 64; off++) {
		start(look_at_frame, stack + STACK - off);
		CHECK_EQ(seen.frame % 16, 0);
		CHECK(seen.frame <= (uintptr_t)stack + STACK - (unsigned)off);
		CHECK(seen.frame > (uintptr_t)stack + STACK - 512);
	}
}

static void look_at_rounding(void *arg)
{
	(void)arg;
	seen.rounding = fegetround();
	back();
}

TEST(entry_inherits_the_fp_control_of_its_maker)
{
	static const int modes[] = { FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO,
				     FE_TONEAREST };

	for (int i = 0; i < 4; i++) {
		memset(&seen, 0, sizeof(seen));
		fesetround(modes[i]);
		context_make(&there, stack + STACK, look_at_rounding, NULL);
		fesetround(modes[(i + 1) % 4]);
		there.busy = 1;
		context_switch(&here, &there);
		CHECK_EQ(seen.rounding, modes[i]);
		CHECK_EQ(fegetround(), modes[(i + 1) % 4]);
	}
}

/* ---- backtraces ---- */

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *c, void *arg)
{
	(void)arg;
	if (_Unwind_GetIP(c)) {
		seen.last_ip = _Unwind_GetIP(c);
		seen.frames++;
	}
	/* An unwinder that runs on finds an end here all the same. */
	return seen.frames > 100 ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

__attribute__((noinline)) static void deep(int n)
{
	if (n)
		deep(n - 1);
	else
		seen.code = _Unwind_Backtrace(count_frame, NULL);
	__asm__ volatile("" : : : "memory"); /* no tail call */
}

static void check_trace(int frames)
{
	uintptr_t entry = (uintptr_t)context_entry;

	CHECK_EQ(seen.code, _URC_END_OF_STACK);
	CHECK(seen.frames >= frames && seen.frames < frames + 8);
	CHECK(seen.last_ip > entry && seen.last_ip < entry + 64);
}

static void look_at_trace(void *arg)
{
	(void)arg;
	deep(5);
	back();
}

TEST(backtrace_ends_at_context_entry)
{
	start(look_at_trace, stack + STACK);
	check_trace(8);
}

static void *uthread_trace(void *arg)
{
	deep(5);
	return arg;
}

TEST(backtrace_of_a_uthread_ends_at_context_entry)
{
	in_uthread(uthread_trace, NULL);
	check_trace(9);
}

TEST_MAIN()
