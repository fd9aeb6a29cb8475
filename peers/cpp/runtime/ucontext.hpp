/* SPDX-License-Identifier: Apache-2.0 */
/* ucontext.hpp - swapcontext(3) and a queue. A switch sets the signal mask: a call. */
#include "queue.hpp"

#include <gnu/libc-version.h>
#include <ucontext.h>

#define RT_MODEL "ucontext"
#define RT_SYNC 0

namespace rt {

inline std::string version()
{
	return std::string("glibc ") + gnu_get_libc_version();
}

class switching {
public:
	void start(void (*entry)(void *), void *argument)
	{
		const auto halves = reinterpret_cast<std::uintptr_t>(this);

		entry_ = entry;
		argument_ = argument;
		getcontext(&of_);
		of_.uc_stack.ss_sp = std::malloc(STACK);
		of_.uc_stack.ss_size = STACK;
		if (!of_.uc_stack.ss_sp)
			unmeasured(RT_MODEL, version(), "no memory for stacks");
		/* makecontext() passes ints. */
		makecontext(&of_, reinterpret_cast<void (*)()>(begin), 2,
			    static_cast<int>(halves >> 32),
			    static_cast<int>(halves & 0xffffffff));
	}

	void switch_to(switching &other)
	{
		swapcontext(&of_, &other.of_);
	}

private:
	static constexpr std::size_t STACK = 65536;

	static void begin(unsigned high, unsigned low)
	{
		auto *own = reinterpret_cast<switching *>(
			static_cast<std::uintptr_t>(high) << 32 | low);

		own->entry_(own->argument_);
	}

	ucontext_t of_;
	void (*entry_)(void *) = nullptr;
	void *argument_ = nullptr;
};

} // namespace rt

RT_OF(switching)
