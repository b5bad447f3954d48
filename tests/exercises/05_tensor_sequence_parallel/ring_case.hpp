#pragma once
/// @file
/// Chunks in closed form, and what classic wrong answers look like.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"

namespace ultra::tensor_parallel::test {

/// @brief Chunks, and the ranks that have them.
struct RingCase {
  int ranks = 1;
  Shape shape;
  DType dtype = DType::kF32;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    return fmt::format("chunks of {}, {}", shape.str(), to_string(dtype));
  }
  /// A rank's part of a chunk; no two are alike.
  [[nodiscard]] Values part(int rank, int chunk) const {
    Values values = whole_numbers(seed, rank, as_size(chunk), shape.numel());
    for (double& value : values) value += 20 * rank + 400 * chunk;
    return values;
  }
  [[nodiscard]] Values chunk_of(int rank) const { return part(rank, rank); }
  [[nodiscard]] Values sum(int chunk) const {
    return sum_over_ranks(ranks, [&](int rank) { return part(rank, chunk); });
  }
  [[nodiscard]] int before(int rank, int steps) const { return (rank + ranks - steps) % ranks; }
  [[nodiscard]] std::size_t chunk_bytes() const { return shape.numel() * size_of(dtype); }
};

/// @brief What a rank was given to use.
struct Used {
  int chunk;
  Shape shape;
  Values values;
};

/// @brief What to say about a chunk that is not the one of its step.
inline const char* wrong_chunk(const RingCase& c, int rank, const std::vector<Used>& all,
                               std::size_t step) {
  const Values& values = all[step].values;
  const int steps = static_cast<int>(step);
  if (values == c.chunk_of(c.before(rank, steps))) {
    return "Hint: the chunk's number is wrong: after s steps the chunk of rank - s (modulo N) is "
           "here.";
  }
  for (std::size_t earlier = 0; earlier < step; ++earlier) {
    if (values != all[earlier].values) continue;
    return "Hint: this chunk was here before: each step passes on what the step before it has "
           "brought.";
  }
  if (values == c.chunk_of((rank + steps) % c.ranks)) {
    return "Hint: the ring turns the wrong way: a rank sends to next_rank(), so that after s steps "
           "it has the chunk of rank - s.";
  }
  return "Hint: this is nobody's chunk: it was used before it had arrived.";
}

/// @brief What to say about a sum that is not that of the rank's own chunk.
inline const char* wrong_sum(const RingCase& c, int rank, const Values& found) {
  for (int other = 0; other < c.ranks; ++other) {
    if (other != rank && found == c.sum(other)) {
      return "Hint: this is the sum for another rank's chunk: a rank begins with the chunk of "
             "prev_rank(), so that the ring ends with its own.";
    }
    for (int maker = 0; maker < c.ranks; ++maker) {
      if (found != c.part(maker, other)) continue;
      return "Hint: this is one rank's part only: what has arrived and the part made here are "
             "added up.";
    }
  }
  return "Hint: what arrives in a step belongs to the chunk that is made in it: add the two when "
         "both are here, and pass the sum on.";
}

}  // namespace ultra::tensor_parallel::test
