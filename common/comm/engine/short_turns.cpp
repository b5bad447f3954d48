#include "common/comm/engine/short_turns.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ultra::comm {
namespace {

/// The kernel's struct sched_attr, which older C libraries do not declare.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

}  // namespace

void ask_for_short_turns() {
  Attributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0U) != 0) return;
  attributes.runtime = kShortTurn;
  // A kernel or a container that refuses leaves turns as they are: slower, and as correct.
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &attributes, 0U));
}

}  // namespace ultra::comm
