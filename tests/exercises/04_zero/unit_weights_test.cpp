// Contract of exercise 04.4: gathered weights against those of a model that has them all, through
// cycles of gather, wait, update and release; and what memory each state takes.
#include "chapters/04_zero/unit_weights.hpp"

#include "chapters/04_zero/shards/shard_groups.hpp"
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
    const nn::Model whole(config, Device::cpu(), dtype, seed, factory_);
    for (const nn::Parameter* parameter : whole.parameters()) {
      initial.push_back(parameter->value().to_vector());
    }
    nn::Model* const chunk = &model_;
    for (const ParameterGroup& group :
         groups_by_part({&chunk, 1}, model_.parameters(), ranks.size())) {
      units.emplace_back(group, ranks);
      ultra::test::leave_garbage(device_, group.layout.padded, dtype);
    }
  }

  [[nodiscard]] MemoryUsage memory() const { return device_.memory().current(); }

  /// This rank's shard of a unit, whose parameters lie one after the other.
  [[nodiscard]] Tensor shard_of(std::size_t unit, const std::vector<Values>& all) const {
    Values flat;
    for (const std::size_t number : units[unit].group().numbers) {
      flat.insert(flat.end(), all[number].begin(), all[number].end());
    }
    flat.resize(units[unit].group().layout.padded, 0.0);
    const Tensor whole = Tensor::from<double>(Device::cpu(), {flat.size()}, flat);
    return own_shard(whole, shards).to(units[unit].shard().dtype());
  }

  /// The parameters of this unit have their values of `all`, those of the other units have none.
  void expect_there(std::optional<std::size_t> there, const std::vector<Values>& all = {},
                    const std::string& hint = kSet) const {
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const ParameterGroup& group = units[unit].group();
      for (std::size_t i = 0; i < group.parameters.size(); ++i) {
        const nn::Parameter& parameter = *group.parameters[i];
        ASSERT_EQ(parameter.has_value(), unit == there)
            << "whether " << parameter.name() << " has a value\n"
            << (unit == there ? kSet : kTakeAway);
        if (unit != there) continue;
        ASSERT_TRUE(ultra::test::all_equal(parameter.value(), all[group.numbers[i]]))
            << parameter.name() << " on rank " << shards.rank() << "\n"
            << hint;
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
  /// Calls fn on 1 to 5 ranks, until one fails.
  void for_ranks(const std::function<void(Rank& rank)>& fn, const std::string& hint = "",
                 const RankOptions& options = {}) {
    for (int ranks = 1; ranks <= 5 && !HasFailure(); ++ranks) {
      const nn::ModelConfig config = ultra::test::random_model_config(random);
      const DType dtype = random.pick({DType::kF32, DType::kF64});
      const std::string what =
          fmt::format("L {} h {} f {} v {}, {}", config.num_layers, config.hidden_size,
                      config.ffn_hidden_size, config.vocab_size, to_string(dtype));
      const auto body = [&](Communicator& shards) {
        Rank rank(config, dtype, seed, shards);
        fn(rank);
      };
      ultra::test::on_ranks(ranks, what, body, options, hint);
    }
  }
};

/// The initial weights, of which each rank begins with its shard, and those of two updates.
TEST_F(UnitWeightsTest, EachGatherBringsWhatTheShardsHoldNow) {
  constexpr const char* kCategory =
      "Hint: the whole unit counts as MemoryCategory::kCommunication, the shard as kParameters.";
  const auto steps = [&](Rank& rank) {
    std::vector<Values> weights = rank.initial;
    std::size_t sent = 0;
    const MemoryUsage before = rank.memory();
    for (int step = 0; step < 3; ++step) {
      for (std::size_t unit = 0; unit < rank.units.size(); ++unit) {
        UnitWeights& own = rank.units[unit];
        const Tensor shard = rank.shard_of(unit, weights);
        const std::size_t bytes = own.group().layout.padded * size_of(shard.dtype());
        EXPECT_TRUE(step > 0 || ultra::test::all_equal(own.shard(), shard)) << own.group().name;
        own.shard().copy_from(shard);
        own.start_gather();
        EXPECT_EQ(rank.memory()[MemoryCategory::kCommunication], bytes)
            << "bytes of the unit after start_gather()\n"
            << kCategory;
        own.wait();
        own.wait();  // it may be called again
        EXPECT_EQ(rank.memory().total(), before.total() + bytes)
            << "bytes after wait()\nHint: the values are views of the array that the all-gather "
               "writes: a copy takes its memory twice.";
        rank.expect_there(
            unit, weights,
            step == 0 ? kSet
                      : "Hint: each gather brings what shard() holds now, not the weights before "
                        "the update.");
        own.release();
        rank.expect_there(std::nullopt);
        EXPECT_EQ(rank.memory().total(), before.total())
            << "bytes after release()\nHint: release() lets go of whole_: the memory is free when "
               "no handle on it is left.";
        EXPECT_EQ(rank.memory()[MemoryCategory::kParameters], before[MemoryCategory::kParameters])
            << kCategory;
        sent += bytes - own.shard().nbytes();
      }
      for (std::size_t p = 0; p < weights.size(); ++p) {
        for (std::size_t e = 0; e < weights[p].size(); ++e) {
          weights[p][e] = 20.0 * step + ultra::test::whole_number(1, step, p, e);
        }
      }
    }
    EXPECT_EQ(rank.shards.stats().sent_bytes(), sent)
        << "bytes sent in all\nHint: one all-gather per start_gather(), (S-1)/S of the unit.";
  };
  for_ranks(steps, "", ultra::test::on_call());
}

/// Rank 0 is ahead of the others, who begin some time after it says so.
TEST_F(UnitWeightsTest, TheRankComputesWhileAUnitIsUnderWay) {
  const auto ahead = [](Rank& rank) {
    const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
    if (rank.shards.rank() > 0) rank.shards.recv(word, 0).wait();
    ultra::test::come_late(rank.shards);
    rank.units[0].start_gather();
    rank.units[1].start_gather();
    if (rank.shards.rank() == 0) {
      for (int peer = 1; peer < rank.shards.size(); ++peer) rank.shards.send(word, peer).wait();
    }
    for (const std::size_t unit : {0U, 1U}) {
      rank.units[unit].wait();
      rank.expect_there(unit, rank.initial,
                        "Hint: wait() waits for the all-gather: before, the other ranks' weights "
                        "have not arrived.");
      rank.shards.barrier().wait();  // what nobody waited for ends before its memory is used again
      rank.units[unit].release();
    }
  };
  for_ranks(
      ahead,
      "Hint: start_gather() only begins to gather: the rank computes with another unit meanwhile.");
}

TEST_F(UnitWeightsTest, CallsOutOfOrderAreErrors) {
  constexpr const char* kOnce =
      "Hint: start_gather() throws InternalError when the unit is there or under way: ensure().";
  constexpr const char* kStartFirst = "Hint: wait() throws InternalError without start_gather().";
  constexpr const char* kReleased =
      "Hint: release() throws InternalError when the unit is not there, or not any more.";
  for_ranks([&](Rank& rank) {
    UnitWeights& unit = rank.units[1];
    EXPECT_THROW(unit.wait(), InternalError) << kStartFirst;
    EXPECT_THROW(unit.release(), InternalError) << kReleased;
    unit.start_gather();
    EXPECT_THROW(unit.start_gather(), InternalError) << kOnce;
    unit.wait();
    EXPECT_THROW(unit.start_gather(), InternalError) << kOnce;
    rank.expect_there(1, rank.initial);
    unit.release();
    EXPECT_THROW(unit.release(), InternalError) << kReleased;
    EXPECT_THROW(unit.wait(), InternalError) << kStartFirst;
  });
}

}  // namespace
}  // namespace ultra::zero
