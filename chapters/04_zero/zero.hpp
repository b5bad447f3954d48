#pragma once
/// @file
/// Chapter 04 as a technique: replicas that share the model's states out among themselves.
///
/// | state                  | becomes                                                     | where               |
/// |------------------------|-------------------------------------------------------------|---------------------|
/// | parameters             | flat arrays of buckets or parts, one shard per rank         | flat_layout, shards/ |
/// | moments                | those of the rank's shards (stage 1)                        | zero_step           |
/// | gradients              | reduce-scattered group by group, kept as shards (stage 2)   | shard_reducer       |
/// | weights                | units that are gathered for each use and released (stage 3) | unit_weights, prefetch |
/// | a step                 | one ShardedModel per stage, in the order of time            | zero1, zero2, zero3 |
/// | shards of whole rows   | padded and copied, tensor by tensor (--shards rows)         | rows/               |
/// | what travels in ZeRO++ | 8-bit integers, inside nodes                                | zero_plus_plus/     |
/// | what is on no device   | blocks in the host's memory or in a file                    | offload/            |

#include <memory>
#include <optional>
#include <string>

#include "chapters/04_zero/offload/offload_options.hpp"
#include "chapters/04_zero/options/zero_options.hpp"
#include "chapters/04_zero/stages.hpp"
#include "common/train/cli/technique.hpp"

namespace ultra::zero {

/// @brief --zero and what belongs to it.
class Zero : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  [[nodiscard]] std::vector<train::Conflict> conflicts(const train::Setup& setup) const override;
  void validate_training(const train::Setup& setup) const override;
  void check_ranks(train::Setup& setup) override;
  [[nodiscard]] std::vector<train::Conflict> conflicts_with_recording(
      const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  void name_algorithms(train::AlgorithmNames& names) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief Its flags.
  [[nodiscard]] const ZeroOptions& options() const { return options_; }
  /// @brief How the model is sharded, and what of it is offloaded; only when options().shards().
  [[nodiscard]] ZeroSettings settings(const train::Setup& setup) const;

 private:
  ZeroOptions options_;
};

/// @brief Makes a rank's states of a data group in shards. All ranks end alike, before the first
/// step, when storage is missing on one of them.
/// @param node_size         ranks that share one copy; absent: all of them.
/// @param matrices_at_once  see WholeMatrices.
[[nodiscard]] train::MakeStates sharded_states(const ZeroSettings& settings,
                                               std::optional<std::size_t> node_size,
                                               std::size_t matrices_at_once = 0);

/// @brief --offload: what is outside the device. A program that has it has Zero before it.
[[nodiscard]] std::unique_ptr<train::Technique> offload();

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief The technique of this chapter in a program that has it.
[[nodiscard]] const Zero& zero_of(const train::Setup& setup);

}  // namespace ultra::zero
