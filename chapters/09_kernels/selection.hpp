#pragma once
/// @file
/// Which rungs to run on which sizes, from the words of a command line.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Rungs of one ladder.
struct Selection {
  /// @brief The ladder; it belongs to the list that select() was given.
  const Ladder* ladder;
  /// @brief Numbers of its rungs, in order.
  std::vector<int> rungs;
};

/// @brief The rungs that "matmul_fp32" (all), "matmul_fp32/3", "matmul_fp32/03" or
/// "matmul_fp32/coalesced" name.
/// @throws ConfigError when there is no such ladder or rung; the message lists those there are.
[[nodiscard]] Selection select(std::string_view text,
                               std::span<const std::unique_ptr<Ladder>> ladders);

/// @brief The ladder of that name, apart from the others.
/// @throws ConfigError when there is none; the message lists those there are.
[[nodiscard]] std::unique_ptr<Ladder> find_ladder(std::string_view name);

/// @brief The sizes that "128" (every extent) or "128x96x64" (one each) name.
/// @throws ConfigError when these are not positive numbers, or not as many as the ladder has
/// extents.
[[nodiscard]] Sizes parse_sizes(std::string_view text, const LadderInfo& ladder);

/// @brief "rows 128 x columns 96 x depth 64".
[[nodiscard]] std::string to_text(const LadderInfo& ladder, const Sizes& sizes);

/// @brief Roughly how many seconds one rung takes in the emulator with every access counted: 2.5e7
/// operations a second, which is what the naive matrix product reaches on one core of a server, and
/// 5e7 of the least bytes a second. Rungs with tensor cores are faster.
[[nodiscard]] double emulated_seconds(const Cost& cost);

/// @brief Refuses what would keep the emulator busy for more than ten minutes.
/// @throws ConfigError that says how long it might take, and what to do.
void expect_emulable(const Selection& selection, const Sizes& sizes);

}  // namespace ultra::ladders
