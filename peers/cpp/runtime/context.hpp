/* SPDX-License-Identifier: Apache-2.0 */
/* context.hpp - Boost.Context's fcontext, below Boost.Fiber, and a queue. */
#include "queue.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/version.hpp>

#include <new>

#define RT_MODEL "context"
#define RT_SYNC 0

namespace rt {

namespace bc = boost::context;

inline std::string version()
{
	return std::string("Boost ") + BOOST_LIB_VERSION;
}

/* A fiber is where somebody left off. Who goes on is given it by who went, and it is
 * for whom it belongs to, not for whom it came to: so it is kept in the other's place. */
class switching {
public:
	void start(void (*entry)(void *), void *argument)
	try {
		of_ = bc::fiber(std::allocator_arg, bc::fixedsize_stack(STACK),
				[entry, argument](bc::fiber &&from) {
					arrived(std::move(from));
					entry(argument);
					return bc::fiber();
				});
	} catch (const std::bad_alloc &) {
		unmeasured(RT_MODEL, version(), "no memory for stacks");
	}

	void switch_to(switching &other)
	{
		left_ = this;
		arrived(std::move(other.of_).resume());
	}

private:
	static constexpr std::size_t STACK = 65536;
	static inline switching *left_ = nullptr;

	static void arrived(bc::fiber &&from)
	{
		left_->of_ = std::move(from);
	}

	bc::fiber of_;
};

} // namespace rt

RT_OF(switching)
