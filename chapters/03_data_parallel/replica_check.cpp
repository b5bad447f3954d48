#include "chapters/03_data_parallel/replica_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/numeric.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLanes = 4;  // chains of multiplications that the processor overlaps

/// One to one in each argument: words that differ leave sums that differ.
std::uint64_t mix(std::uint64_t sum, std::uint64_t word) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  return std::rotl((sum ^ word) * kOdd, 29);
}

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t begin) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + begin, std::min(kWord, bytes.size() - begin));
  return word;
}

/// The checksums of one parameter, by replica.
using Sums = std::vector<std::uint64_t>;

/// What a drift message is made of.
struct Drift {
  std::size_t parameter;     ///< the first that differs
  std::size_t parameters;    ///< how many differ
  std::vector<int> deviant;  ///< members that differ from the others
  std::vector<int> others;
};

/// The sum that most replicas have; without a majority that of the first.
std::uint64_t accepted(const Sums& sums) {
  for (const std::uint64_t sum : sums) {
    const auto same = std::count(sums.begin(), sums.end(), sum);
    if (2 * checked_cast<std::size_t>(same) > sums.size()) return sum;
  }
  return sums.front();
}

class ReplicaSums {
 public:
  ReplicaSums(const std::vector<nn::Parameter*>& parameters, const Communicator& dp)
      : parameters_(parameters), dp_(dp) {
    const Device device = Device::cpu();
    const std::size_t words = 2 * parameters_.size();
    all_ = Tensor::empty(device, {checked_cast<std::size_t>(dp.size()) * words}, DType::kI32,
                         MemoryCategory::kCommunication);
    const std::size_t begin = checked_cast<std::size_t>(dp.rank()) * words;
    const Tensor own = all_.slice(0, {begin, begin + words});
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const std::uint64_t sum = checksum(parameters_[p]->value().contiguous());
      std::memcpy(own.data<std::int32_t>() + 2 * p, &sum, sizeof(sum));
    }
    dp.labeled("replica check").all_gather(own, all_).wait();
  }

  [[nodiscard]] std::optional<Drift> drift() const {
    std::optional<Drift> found;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Sums sums = of(p);
      if (std::all_of(sums.begin(), sums.end(), [&](auto sum) { return sum == sums[0]; })) continue;
      if (!found) found = first_drift(p, sums);
      ++found->parameters;
    }
    return found;
  }

 private:
  [[nodiscard]] Sums of(std::size_t parameter) const {
    Sums sums;
    for (std::size_t member = 0; member < checked_cast<std::size_t>(dp_.size()); ++member) {
      std::uint64_t sum = 0;
      const std::size_t words = 2 * (member * parameters_.size() + parameter);
      std::memcpy(&sum, all_.data<std::int32_t>() + words, sizeof(sum));
      sums.push_back(sum);
    }
    return sums;
  }

  [[nodiscard]] Drift first_drift(std::size_t parameter, const Sums& sums) const {
    Drift drift{.parameter = parameter, .parameters = 0, .deviant = {}, .others = {}};
    for (int member = 0; member < dp_.size(); ++member) {
      const bool same = sums[static_cast<std::size_t>(member)] == accepted(sums);
      (same ? drift.others : drift.deviant).push_back(dp_.world_rank(member));
    }
    return drift;
  }

  const std::vector<nn::Parameter*>& parameters_;
  const Communicator& dp_;
  Tensor all_;  // [N, parameters, 2] halves of checksums
};

class ReplicaCheck : public train::StepObserver {
 public:
  ReplicaCheck(const train::ModelScope& scope, std::size_t every) : every_(every) {
    for (const auto& [name, ranks] : scope.plan.groups.all()) {
      std::vector<nn::Parameter*> held = train::parameters_of(scope.chunks, name);
      for (nn::Model* chunk : scope.chunks) {
        for (nn::Parameter* parameter : chunk->parameters()) {
          if (is_replicated(*parameter, name)) held.push_back(parameter);
        }
      }
      if (ranks.size() > 1 && !held.empty()) checks_.push_back({std::move(held), ranks});
    }
  }

  void step_ends(const train::StepPlan& plan) override {
    if (plan.step % every_ != 0) return;
    for (const auto& [held, ranks] : checks_) expect_equal_replicas(held, ranks, plan.step);
  }

 private:
  static bool is_replicated(const nn::Parameter& parameter, const std::string& group) {
    return std::ranges::find(parameter.replications(), group, &nn::Replication::group) !=
           parameter.replications().end();
  }

  std::size_t every_;
  std::vector<std::pair<std::vector<nn::Parameter*>, Communicator>> checks_;
};

}  // namespace

std::uint64_t checksum(const Tensor& tensor) {
  const HostCopy copy(tensor, HostAccess::kRead);
  const std::span<const std::byte> bytes = comm::bytes_of(copy.host());
  std::uint64_t lanes[kLanes] = {1, 2, 3, 4};
  std::size_t begin = 0;
  for (; begin + kLanes * kWord <= bytes.size(); begin += kLanes * kWord) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = mix(lanes[lane], word_at(bytes, begin + lane * kWord));
    }
  }
  std::uint64_t sum = bytes.size();
  for (; begin < bytes.size(); begin += kWord) sum = mix(sum, word_at(bytes, begin));
  for (const std::uint64_t lane : lanes) sum = mix(sum, lane);
  return sum;
}

void expect_equal_replicas(const std::vector<nn::Parameter*>& parameters,
                           const Communicator& replicas, std::size_t step) {
  const std::optional<Drift> drift = ReplicaSums(parameters, replicas).drift();
  if (!drift) return;
  const std::size_t more = drift->parameters - 1;
  throw ReplicaDrift(fmt::format(
      "replicas drifted apart after step {}: {} on {} differ{} from {}{}. Replicas start from the "
      "same seed and make the same updates: look for gradients that were not added up, or were "
      "touched while they were, and for a rank that runs with other flags or another program.",
      step, parameters[drift->parameter]->name(), comm::rank_list(drift->deviant),
      drift->deviant.size() == 1 ? "s" : "", comm::rank_list(drift->others),
      more == 0 ? "" : fmt::format(", and {} more parameter{}", more, more == 1 ? "" : "s")));
}

std::unique_ptr<train::StepObserver> check_replicas(const train::ModelScope& scope,
                                                    std::size_t every) {
  return std::make_unique<ReplicaCheck>(scope, every);
}

}  // namespace ultra::data_parallel
