#include "chapters/03_data_parallel/batch_shares.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

// [region share_of_batch]
Range share_of_batch(std::size_t global_batch, const Communicator& dp) {
  const auto replicas = checked_cast<std::size_t>(dp.size());
  const auto replica = checked_cast<std::size_t>(dp.rank());
  if (global_batch < replicas) {
    throw ConfigError(
        fmt::format("a global batch of {} leaves nothing to some of {} replicas: each needs a "
                    "sequence at least",
                    global_batch, replicas));
  }
  const std::size_t size = global_batch / replicas;
  const std::size_t rest = global_batch % replicas;  // one more sequence for each of the first
  const std::size_t begin = replica * size + std::min(replica, rest);
  return {begin, begin + size + (replica < rest ? 1 : 0)};
}
// [/region]

// [region cut_share]
std::vector<train::MicroBatch> cut_share(const train::LocalBatch& share, std::size_t micro_batch) {
  if (micro_batch == 0) throw ConfigError("a micro-batch needs a sequence at least");
  const std::size_t own = share.sequences.size();
  std::vector<train::MicroBatch> micro_batches;
  for (std::size_t begin = 0; begin < share.largest; begin += micro_batch) {
    const bool has_work = begin < own;
    const Range next{begin, std::min(begin + micro_batch, own)};
    micro_batches.push_back({.sequences = has_work ? next : Range{own - 1, own},
                             .normalizer = share.global_tokens,
                             .weight = has_work ? 1.0 : 0.0});
  }
  return micro_batches;
}
// [/region]

}  // namespace ultra::data_parallel
