#pragma once
/// @file
/// How many ranks share a layer, and which tokens each of them has outside it.

#include <fmt/format.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel::test {

inline std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// @brief Calls check(ranks, dtype) for both dtypes, until one fails.
template <class Check>
void for_ranks(std::initializer_list<int> numbers, const Check& check) {
  for (const int ranks : numbers) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      if (!::testing::Test::HasFailure()) check(ranks, dtype);
    }
  }
}

/// @brief Ranks and tokens; each test adds the shape of its layer.
struct SplitCase {
  int ranks = 1;
  SequenceParallel sequence_parallel = SequenceParallel::kOff;
  DType dtype = DType::kF32;
  std::size_t micro_batches = 1;
  std::size_t batch = 1;      ///< sequences of a micro-batch
  std::size_t local_seq = 1;  ///< tokens of a sequence that a rank has outside the region

  [[nodiscard]] bool splits_sequences() const { return sequence_parallel == SequenceParallel::kOn; }
  [[nodiscard]] std::size_t seq() const {
    return local_seq * (splits_sequences() ? as_size(ranks) : 1);
  }
  [[nodiscard]] std::size_t sequences() const { return micro_batches * batch; }
  [[nodiscard]] Range sequences_of(std::size_t micro_batch) const {
    return {micro_batch * batch, (micro_batch + 1) * batch};
  }
  [[nodiscard]] Range tokens_of(int rank) const {
    if (!splits_sequences()) return {0, local_seq};
    return {as_size(rank) * local_seq, (as_size(rank) + 1) * local_seq};
  }
  [[nodiscard]] std::shared_ptr<Region> context(const Communicator& tp) const {
    return make_region(tp, sequence_parallel);
  }
  [[nodiscard]] std::string str() const {
    return fmt::format("{}, sequence parallelism {}, {} micro-batches of {} sequences of {} tokens",
                       to_string(dtype), splits_sequences() ? "on" : "off", micro_batches, batch,
                       seq());
  }
};

/// @brief A fixture that draws them.
class SplitTest : public ultra::test::RandomTest {
 protected:
  SplitCase draw_split(int ranks, SequenceParallel sequence_parallel, DType dtype) {
    return {.ranks = ranks,
            .sequence_parallel = sequence_parallel,
            .dtype = dtype,
            .micro_batches = random.between(1, 2),
            .batch = random.between(1, 3),
            .local_seq = random.between(1, 4)};
  }
  /// @brief Two micro-batches on one rank.
  SplitCase draw_alone(DType dtype) {
    SplitCase alone = draw_split(1, SequenceParallel::kOff, dtype);
    alone.micro_batches = 2;
    return alone;
  }
  /// @brief Calls check(split) for any number of ranks, with and without sequence parallelism,
  /// until one fails.
  template <class Check>
  void for_splits(const Check& check) {
    for (const auto sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
      for_ranks({1, 2, 3, 4, 8}, [&](int ranks, DType dtype) {
        check(draw_split(ranks, sequence_parallel, dtype));
      });
    }
  }
};

}  // namespace ultra::tensor_parallel::test
