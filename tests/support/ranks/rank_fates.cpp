#include "tests/support/ranks/rank_fates.hpp"

#include <chrono>
#include <mutex>

namespace ultra::test {

Fates fates_of(int world_size, const std::function<void(Communicator&)>& fn,
               const RankOptions& options) {
  using Clock = std::chrono::steady_clock;
  Fates fates;
  std::mutex mutex;
  const auto begin = Clock::now();
  const auto note = [&](int rank, std::exception_ptr error) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const std::scoped_lock lock(mutex);
    fates.ranks[rank] = {error, error ? message_of(error) : "", seconds};
  };
  try {
    run_ranks(
        world_size,
        [&](Communicator& world) {
          try {
            fn(world);
            note(world.rank(), nullptr);
          } catch (...) {
            note(world.rank(), std::current_exception());
            throw;
          }
        },
        options);
  } catch (...) {
    fates.thrown = std::current_exception();
  }
  return fates;
}

}  // namespace ultra::test
