#pragma once
/// @file
/// Random trainings by trees, each of which has the bits of one rank's.

#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::five_d::test {

/// @brief Losses, norms, validation losses and weights; empty in a process that is not the first.
using Bits = std::vector<std::uint64_t>;

/// @brief The training of rank 0, in the process that has it.
[[nodiscard]] std::optional<ultra::test::RankRun> run_of_first(const Configuration& configuration);

/// @brief What a training ends with.
[[nodiscard]] Bits bits_of(const Configuration& configuration);

/// @brief Trainings with --sums tree.
class RandomMeshes {
 public:
  /// @param random      outlives this.
  /// @param most_ranks  of a mesh.
  /// @param device      of all ranks.
  RandomMeshes(ultra::test::Random& random, std::size_t most_ranks, std::string device = "cpu")
      : random_(random), most_ranks_(most_ranks), device_(std::move(device)) {}

  /// @brief A mesh and a model whose trees it cuts at nodes.
  /// @param types  f32, f64 or bf16; empty: one of them.
  [[nodiscard]] Configuration draw(const std::string& types = "");

  /// @brief One that has a flag.
  [[nodiscard]] Configuration draw_with(const std::string& flag, const std::string& types = "");

  /// @brief One rank that trains the same, in micro-batches of another size.
  [[nodiscard]] Configuration alone(const Configuration& configuration);

 private:
  bool percent(std::size_t chance) { return random_.between(1, 100) <= chance; }
  std::size_t power_of_two(std::size_t most_bits) {
    return std::size_t{1} << random_.between(0, most_bits);
  }
  struct Extents;
  Configuration draw_any(const std::string& types);
  Extents draw_mesh(Configuration& drawn);
  void draw_model(Configuration& drawn, const Extents& mesh);
  void draw_experts(Configuration& drawn, const Extents& mesh);
  void draw_types(Configuration& drawn, const std::string& types);
  void draw_layout(Configuration& drawn, const Extents& mesh);

  ultra::test::Random& random_;
  std::size_t most_ranks_;
  std::string device_;
};

}  // namespace ultra::five_d::test
