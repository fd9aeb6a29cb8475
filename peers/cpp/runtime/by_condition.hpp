/* SPDX-License-Identifier: Apache-2.0 */
/* by_condition.hpp - a channel with room for one, for libraries that have none. */
#ifndef PEERS_CPP_BY_CONDITION_HPP
#define PEERS_CPP_BY_CONDITION_HPP

#include <cstdint>

namespace rt {

template <typename Mutex, typename Condition> class slot {
public:
	void send(std::int64_t value)
	{
		mutex_.lock();
		while (full_)
			emptied_.wait(mutex_);
		value_ = value;
		full_ = true;
		filled_.signal();
		mutex_.unlock();
	}

	std::int64_t receive()
	{
		mutex_.lock();
		while (!full_)
			filled_.wait(mutex_);
		const std::int64_t value = value_;
		full_ = false;
		emptied_.signal();
		mutex_.unlock();
		return value;
	}

private:
	Mutex mutex_;
	Condition filled_, emptied_;
	std::int64_t value_ = 0;
	bool full_ = false;
};

} // namespace rt

#endif
