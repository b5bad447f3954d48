#pragma once
/// @file
/// One rank of a model whose weights are shards of units: what the tests of exercise 04.4 look at.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "chapters/04_zero/unit_weights.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::zero::test {

using Values = std::vector<double>;

inline constexpr const char* kSet =
    "Hint: wait() gives every parameter of the group its value: group_.view(whole_, i).";
inline constexpr const char* kTakeAway =
    "Hint: release() takes the values away from the unit's parameters: whoever reads them too late "
    "must notice, and a view keeps the memory of the whole unit alive.";
/// One rank's model, whose weights are shards.
class Rank {
 public:
  Rank(const nn::ModelConfig& config, DType dtype, std::uint64_t seed, const Communicator& shards)
      : shards_(shards),
        model_(config, device_, dtype, seed, factory_, nn::StageSpec::whole(config),
               nn::Values::kDeferred) {
    nn::Model* const chunk = &model_;
    for (const ParameterGroup& group :
         groups_by_part({&chunk, 1}, model_.parameters(), shards.size())) {
      units.emplace_back(group, shards);
      ultra::test::leave_garbage(device_, group.layout.padded, dtype);
    }
  }

  [[nodiscard]] std::size_t bytes(MemoryCategory category) const {
    return device_.memory().current()[category];
  }
  [[nodiscard]] std::size_t unit_bytes(std::size_t unit) const {
    return units[unit].group().layout.padded * size_of(units[unit].shard().dtype());
  }
  [[nodiscard]] std::size_t total() const { return device_.memory().current().total(); }

  /// This rank's shard of a unit; what no piece covers is padding.
  [[nodiscard]] Values shard_of(std::size_t unit, const std::vector<Values>& all) const {
    const ParameterGroup& group = units[unit].group();
    Values shard(group.layout.shard, 0.0);
    for (const Piece& piece : pieces_of(group.layout, shards_.rank())) {
      const Values& from = all[group.numbers[piece.tensor]];
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(piece.elements.begin),
                  piece.elements.size(),
                  shard.begin() + static_cast<std::ptrdiff_t>(piece.place.begin));
    }
    return shard;
  }

  void gather(std::size_t unit) {
    units[unit].start_gather();
    units[unit].wait();
  }

  /// @param all  values of all parameters of the model.
  void expect_values(std::size_t unit, const std::vector<Values>& all,
                     const std::string& hint = kSet) const {
    const ParameterGroup& group = units[unit].group();
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const nn::Parameter& parameter = *group.parameters[i];
      ASSERT_TRUE(parameter.has_value()) << parameter.name() << " has no value\n" << kSet;
      ASSERT_TRUE(ultra::test::all_equal(parameter.value(), all[group.numbers[i]]))
          << parameter.name() << " on rank " << shards_.rank() << "\n"
          << hint;
    }
  }

  /// Whether the parameters of a unit have values, and those of the others too.
  void expect_there(const std::vector<bool>& there) const {
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      for (const nn::Parameter* parameter : units[unit].group().parameters) {
        ASSERT_EQ(parameter->has_value(), there[unit])
            << parameter->name() << (there[unit] ? " has no value\n" : " has a value\n")
            << (there[unit] ? kSet : kTakeAway);
      }
    }
  }
  void expect_released() const { expect_there(std::vector<bool>(units.size(), false)); }

  std::vector<UnitWeights> units;  ///< in backward order

 private:
  Communicator shards_;
  Device device_ = Device::cpu();
  nn::DenseFactory factory_;
  nn::Model model_;
};

}  // namespace ultra::zero::test
