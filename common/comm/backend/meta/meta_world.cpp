#include "common/comm/backend/meta/meta_world.hpp"

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/backend/meta/meta_transport.hpp"
#include "common/comm/engine/group_state.hpp"

namespace ultra::comm {
namespace {

/// Nothing ever happens elsewhere.
class MetaMonitor final : public RankMonitor {
 public:
  explicit MetaMonitor(int rank) : rank_(rank) {}

  int world_rank() const override { return rank_; }
  std::uint64_t events() const override { return 0; }
  void sleep(std::uint64_t, Clock::time_point) override {}
  void wake() override {}
  int spins() const override { return 0; }
  void check(const std::string&) override { throw_if_interrupted(); }
  void report_blocked(std::uint64_t, const std::string& doing) override {
    throw InternalError(fmt::format("nobody is there to end {}", doing));
  }
  void report_moving() override {}
  std::vector<RankActivity> activities() override { return {}; }

 private:
  int rank_;
};

}  // namespace

Communicator meta_world(int rank, int size, gpu::Tape& tape) {
  if (rank < 0 || rank >= size) {
    throw ConfigError(
        fmt::format("a world of {} ranks has no rank {}: they are 0 to {}", size, rank, size - 1));
  }
  auto own = std::make_shared<RankState>();
  own->engine = std::make_shared<ProgressEngine>(
      std::make_shared<MetaMonitor>(rank),
      EngineOptions{.progress = Progress::kOnCall, .next_alarm = {}});
  own->polling = std::make_shared<Polling>();
  own->checking = Checking::kOff;
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return Communicator(std::make_shared<Communicator::State>(Communicator::State{
      GroupState::join(std::move(own), make_meta_transport(tape, std::move(members), rank),
                       "world"),
      nullptr,
      {}}));
}

}  // namespace ultra::comm
