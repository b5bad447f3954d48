// Contract of exercise 04.4: gathered weights against those of a model that has them all, through
// cycles of gather, wait, update and release; and what memory each state takes.
#include "chapters/04_zero/unit_weights.hpp"

#include <set>

#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::zero {
namespace {

using Values = std::vector<double>;

constexpr const char* kSet =
    "Hint: wait() gives every parameter of the group its value: group_.view(whole_, i).";
constexpr const char* kTakeAway =
    "Hint: release() takes the values away from the unit's parameters: whoever reads them too late "
    "must notice, and a view keeps the memory of the whole unit alive.";
/// One rank's model, whose weights are shards.
class Rank {
 public:
  Rank(const nn::ModelConfig& config, DType dtype, std::uint64_t seed, const Communicator& ranks)
      : shards(ranks),
        model_(config, device_, dtype, seed, factory_, nn::StageSpec::whole(config),
               nn::Values::kDeferred) {
    nn::Model* const chunk = &model_;
    for (const ParameterGroup& group :
         groups_by_part({&chunk, 1}, model_.parameters(), ranks.size())) {
      units.emplace_back(group, ranks);
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
    for (const Piece& piece : pieces_of(group.layout, shards.rank())) {
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
          << parameter.name() << " on rank " << shards.rank() << "\n"
          << hint;
    }
  }

  /// The parameters of these units have values, those of the others have none.
  void expect_there(const std::set<std::size_t>& there) const {
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const bool is_there = there.contains(unit);
      for (const nn::Parameter* parameter : units[unit].group().parameters) {
        ASSERT_EQ(parameter->has_value(), is_there) << parameter->name() << "\n"
                                                    << (is_there ? kSet : kTakeAway);
      }
    }
  }

  std::vector<UnitWeights> units;  ///< in backward order
  std::vector<Values> initial;     ///< of all parameters of the model
  Communicator shards;

 private:
  Device device_ = Device::cpu();
  nn::DenseFactory factory_;
  nn::Model model_;
};

class UnitWeightsTest : public ultra::test::RandomTest {
 protected:
  /// Calls fn on 1 to 5 ranks, with the initial values of all parameters, until one fails.
  void for_ranks(const std::function<void(Rank& rank)>& fn, const RankOptions& options = {},
                 const std::string& hint = "") {
    for (int ranks = 1; ranks <= 5 && !HasFailure(); ++ranks) {
      const nn::ModelConfig config = ultra::test::random_model_config(random);
      const DType dtype = random.pick({DType::kF32, DType::kF64});
      nn::DenseFactory factory;
      const nn::Model whole(config, Device::cpu(), dtype, seed, factory);
      std::vector<Values> initial;
      for (const nn::Parameter* parameter : whole.parameters()) {
        initial.push_back(parameter->value().to_vector());
      }
      const std::string what =
          fmt::format("L {} h {} f {} v {}, {}", config.num_layers, config.hidden_size,
                      config.ffn_hidden_size, config.vocab_size, to_string(dtype));
      const auto body = [&](Communicator& shards) {
        Rank rank(config, dtype, seed, shards);
        rank.initial = initial;
        fn(rank);
      };
      ultra::test::on_ranks(ranks, what, body, options, hint);
    }
  }
};

/// The initial weights, of which each rank begins with its shard, and those of two updates.
TEST_F(UnitWeightsTest, EachGatherBringsWhatTheShardsHoldNow) {
  for_ranks([](Rank& rank) {
    std::vector<Values> weights = rank.initial;
    std::size_t bytes = 0;
    std::size_t kept = 0;
    for (int step = 0; step < 3; ++step) {
      for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
        UnitWeights& own = rank.units[unit];
        const Values shard = rank.shard_of(unit, weights);
        if (step == 0) {
          EXPECT_TRUE(ultra::test::all_equal(own.shard(), shard)) << own.group().name;
          kept += own.shard().nbytes();
        }
        own.shard().copy_from(
            Tensor::from<double>(Device::cpu(), {shard.size()}, shard).to(own.shard().dtype()));
        rank.gather(unit);
        rank.expect_there({unit});
        own.wait();  // it may be called again
        rank.expect_values(
            unit, weights,
            step == 0 ? kSet
                      : "Hint: each gather brings what shard() holds now, not the weights before "
                        "the update.");
        own.release();
        rank.expect_there({});
        bytes += rank.unit_bytes(unit) - own.shard().nbytes();
      }
      for (std::size_t p = 0; p < weights.size(); ++p) {
        for (std::size_t e = 0; e < weights[p].size(); ++e) {
          weights[p][e] = 20.0 * step + ultra::test::whole_number(1, step, p, e);
        }
      }
    }
    EXPECT_EQ(rank.bytes(MemoryCategory::kParameters), kept) << "bytes of the shards";
    EXPECT_EQ(rank.shards.stats().sent_bytes(), bytes)
        << "bytes sent in all\nHint: one all-gather per start_gather(), (S-1)/S of the unit.";
  });
}

TEST_F(UnitWeightsTest, WaitEndsWhenTheLastRankHasJoined) {
  for_ranks([](Rank& rank) {
    ultra::test::come_late(rank.shards);
    rank.gather(0);
    rank.expect_values(0, rank.initial,
                       "Hint: wait() waits for the all-gather: before, the other ranks' weights "
                       "have not arrived.");
    rank.shards.barrier().wait();  // what nobody waited for ends before its memory is used again
    rank.units[0].release();
  });
}

/// Rank 0 is ahead of the others, who begin when it says so.
TEST_F(UnitWeightsTest, TheRankComputesWhileAUnitIsUnderWay) {
  const auto ahead = [](Rank& rank) {
    const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
    if (rank.shards.rank() > 0) rank.shards.recv(word, 0).wait();
    rank.units[0].start_gather();
    rank.units[1].start_gather();
    if (rank.shards.rank() == 0) {
      for (int peer = 1; peer < rank.shards.size(); ++peer) rank.shards.send(word, peer).wait();
    }
    for (const std::size_t unit : {0U, 1U}) {
      rank.units[unit].wait();
      rank.expect_values(unit, rank.initial);
      rank.units[unit].release();
    }
  };
  for_ranks(
      ahead, {},
      "Hint: start_gather() only begins to gather: the rank computes with another unit meanwhile.");
}

TEST_F(UnitWeightsTest, MemoryIsTakenFromStartGatherToRelease) {
  constexpr const char* kCategory =
      "Hint: the whole unit counts as MemoryCategory::kCommunication, the shard as kParameters.";
  const auto measure = [&](Rank& rank) {
    const std::size_t shards = rank.bytes(MemoryCategory::kParameters);
    const std::size_t before = rank.total();
    for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
      rank.units[unit].start_gather();
      EXPECT_EQ(rank.bytes(MemoryCategory::kCommunication), rank.unit_bytes(unit))
          << "bytes of the unit after start_gather()\n"
          << kCategory;
      rank.units[unit].wait();
      EXPECT_EQ(rank.total(), before + rank.unit_bytes(unit))
          << "bytes after wait()\nHint: the values are views of the array that the all-gather "
             "writes: a copy takes its memory twice.";
      rank.units[unit].release();
      rank.expect_there({});
      EXPECT_EQ(rank.total(), before) << "bytes after release()\nHint: release() lets go of "
                                         "whole_: the memory is free when no handle on it is left.";
      EXPECT_EQ(rank.bytes(MemoryCategory::kParameters), shards) << kCategory;
    }
  };
  for_ranks(measure, ultra::test::on_call());
}

TEST_F(UnitWeightsTest, CallsOutOfOrderAreErrors) {
  constexpr const char* kOnce =
      "Hint: start_gather() throws InternalError when the unit is there or under way: ensure().";
  constexpr const char* kStartFirst = "Hint: wait() throws InternalError without start_gather().";
  constexpr const char* kReleased =
      "Hint: release() throws InternalError when the unit was not gathered, or was released "
      "already.";
  for_ranks([&](Rank& rank) {
    UnitWeights& unit = rank.units[1];
    EXPECT_THROW(unit.wait(), InternalError) << kStartFirst;
    EXPECT_THROW(unit.release(), InternalError) << kReleased;
    unit.start_gather();
    EXPECT_THROW(unit.start_gather(), InternalError) << kOnce;
    unit.wait();
    EXPECT_THROW(unit.start_gather(), InternalError) << kOnce;
    rank.expect_values(1, rank.initial);
    unit.release();
    EXPECT_THROW(unit.release(), InternalError) << kReleased;
    EXPECT_THROW(unit.wait(), InternalError) << kStartFirst;
  });
}

}  // namespace
}  // namespace ultra::zero
