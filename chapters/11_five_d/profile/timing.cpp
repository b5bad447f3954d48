#include "chapters/11_five_d/profile/machine_profile.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/base/interrupt.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::profile {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRoundSeconds = 0.002;
constexpr int kRounds = 9;
/// Rounds that take long are fewer.
constexpr double kEnoughSeconds = 1;
constexpr int kRoundsOfDeviation = 5;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The numbers of all ranks. Collective.
std::vector<double> of_all_ranks(const Communicator& group, double own) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const Tensor all = Tensor::zeros(Device::cpu(), {ranks}, DType::kF64);
  group.all_gather(Tensor::from<double>(Device::cpu(), {1}, std::vector{own}).clone(), all).wait();
  return all.to_vector();
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Seconds of a call in each round.
struct Rounds {
  double own_fastest = std::numeric_limits<double>::max();  // of this rank
  std::vector<double> slowest;                              // of the slowest rank, in each
};

/// A round makes calls, and says how many. Collective.
template <class Round>
Rounds measured_rounds(const Communicator& group, const Round& round) {
  Rounds rounds;
  double elapsed = 0;  // the same on all ranks, so that they stop together
  for (int i = 0; i < kRounds && elapsed < kEnoughSeconds; ++i) {
    throw_if_interrupted();
    group.barrier().wait();
    const auto begin = Clock::now();
    const int calls = round(begin);
    const double seconds = seconds_since(begin);
    const double slowest = std::ranges::max(of_all_ranks(group, seconds));
    rounds.own_fastest = std::min(rounds.own_fastest, seconds / calls);
    rounds.slowest.push_back(slowest / calls);
    elapsed += slowest;
  }
  return rounds;
}

}  // namespace

double seconds_of(const Communicator& world, const std::function<void()>& call) {
  const Rounds rounds = measured_rounds(world, [&](Clock::time_point begin) {
    int calls = 0;
    while (calls == 0 || seconds_since(begin) < kRoundSeconds) {
      call();
      ++calls;
    }
    return calls;
  });
  return std::ranges::max(of_all_ranks(world, rounds.own_fastest));
}

double exchange_seconds(const Communicator& world, const std::function<void()>& exchange,
                        int times) {
  const Rounds rounds = measured_rounds(world, [&](Clock::time_point) {
    for (int i = 0; i < times; ++i) exchange();
    return times;
  });
  return std::ranges::min(rounds.slowest);
}

double typical_seconds(const Communicator& world, const std::function<void()>& work) {
  const Rounds rounds = measured_rounds(world, [&](Clock::time_point) {
    work();
    return 1;
  });
  return median_of(rounds.slowest);
}

double deviation_of(const Communicator& world, const std::function<void()>& work) {
  if (world.size() == 1) return 0;
  std::vector<double> excess;
  for (int round = 0; round < kRoundsOfDeviation; ++round) {
    throw_if_interrupted();
    world.barrier().wait();
    const auto begin = Clock::now();
    work();
    const std::vector<double> seconds = of_all_ranks(world, seconds_since(begin));
    const double mean = std::reduce(seconds.begin(), seconds.end()) / world.size();
    excess.push_back(std::ranges::max(seconds) / mean - 1);
  }
  return median_of(excess) / std::sqrt(2 * std::log(world.size()));
}

}  // namespace ultra::profile
