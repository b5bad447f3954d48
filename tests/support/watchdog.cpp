#include "tests/support/watchdog.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/patience.hpp"

namespace ultra::test {
namespace {

std::string running_test() {
  const ::testing::TestInfo* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  return info == nullptr ? "" : std::string(info->test_suite_name()) + "." + info->name();
}

}  // namespace

Watchdog::Watchdog(std::chrono::seconds limit)
    : thread_([this, limit = patient(limit), test = running_test()] {
        std::unique_lock lock(mutex_);
        if (wake_.wait_for(lock, limit, [this] { return over_; })) return;
        std::fprintf(stderr, "%s hangs: it has not ended after %lld s\n", test.c_str(),
                     static_cast<long long>(limit.count()));
        std::abort();
      }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

}  // namespace ultra::test
