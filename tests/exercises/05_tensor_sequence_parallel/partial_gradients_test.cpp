// Contract of exercise 05.5: sums of whole numbers over groups of any shape, the gradient of a
// norm's weight against one rank that has all tokens, and what is sent.
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/nn/layers/norm.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using nn::CopyGradients;
using test::count_of;
using test::kFloatDTypes;
using test::Random;
using ultra::test::come_late;
using ultra::test::on_ranks;
using ultra::test::whole_number;
using Values = std::vector<double>;
using PerRank = std::vector<Values>;

constexpr const char* kNormsForgotten =
    "Hint: this is this rank's part only. Norm weights are on all ranks of tp, and with sequence "
    "parallelism each has the gradient that its own tokens give: add them up over tp.";
constexpr const char* kHeadsForgotten =
    "Hint: this is this rank's part only. Key/value heads that several ranks hold get a part of "
    "their gradient from each: add them up over the ranks that hold the same ones.";
constexpr const char* kOverAll =
    "Hint: this was added up over all ranks. Others hold other heads: only the ranks of the group "
    "that the parameter names add up.";
constexpr const char* kTwice =
    "Hint: this was added up twice: a gradient is added up once in each group that its parameter "
    "names, and in no other.";
constexpr const char* kBySize =
    "Hint: this was added up over another group of as many ranks, too. A group is what its name "
    "says: compare Replication::group with the names in RankGroups, not sizes.";
constexpr const char* kOneOfSeveral =
    "Hint: a parameter may be in parts in several groups at once: add it up over each of them.";
constexpr const char* kAverage =
    "Hint: this is the average: the parts add up to the whole gradient.";
constexpr const char* kEqual =
    "Hint: every copy has the whole gradient here (CopyGradients::kEqual, as norm weights have "
    "without sequence parallelism): there is nothing to add up.";
constexpr const char* kAlone =
    "Hint: one rank alone holds this parameter: its gradient is complete.";
constexpr const char* kEarly =
    "Hint: the sums were read while they were under way: wait for the all-reduce first.";
constexpr const char* kPlaces =
    "Hint: each sum goes back to where its gradient stands, in the order in which they were put "
    "into the array.";
constexpr const char* kNeighbours =
    "Hint: what stands beside the piece was written, too: a piece may be a part of a larger array.";
constexpr const char* kOne =
    "Hint: one all-reduce for each group that has such gradients: put them into one array. Many "
    "small ones would each cost the time of a message.";
constexpr const char* kBytes =
    "Hint: 2 (P-1)/P of what a group of P ranks has in parts, and of nothing else.";

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// Ranks that lie `stride` apart in blocks of `size * stride`.
struct Group {
  std::string name;
  int size = 1;
  int stride = 1;

  [[nodiscard]] int index_of(int rank) const { return rank / stride % size; }
  [[nodiscard]] int first_of(int rank) const { return rank - index_of(rank) * stride; }
};

using Numbers = std::vector<std::size_t>;

/// A parameter of a model that is split over ranks, by the numbers of the groups that hold it.
struct Held {
  std::string name;
  Numbers counts;    ///< elements of the piece that the ranks of each replica have
  Numbers in_parts;  ///< groups whose ranks have a part of the gradient each
  Numbers whole;     ///< groups whose ranks all have the same
};

/// What the ranks hold: replicas of a model whose pieces are dealt out, each on neighbouring ranks.
struct Case {
  int ranks = 1;
  std::size_t replicas = 1;
  DType dtype = DType::kF32;
  std::vector<Group> groups;  ///< in the order in which they are added
  std::vector<Held> held;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{}, {} replicas", to_string(dtype), replicas);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      all += fmt::format(", group {} '{}' of {} ranks, {} apart", g, groups[g].name, groups[g].size,
                         groups[g].stride);
    }
    for (const Held& p : held) {
      all += fmt::format("\n{} of {} elements, in parts in {}, whole in {}", p.name, p.counts,
                         p.in_parts, p.whole);
    }
    return all;
  }
  [[nodiscard]] std::size_t count(int rank, std::size_t p) const {
    return held[p].counts[as_size(rank) * replicas / as_size(ranks)];
  }
  /// The gradients that the ranks have before anything is added up.
  [[nodiscard]] PerRank before(std::size_t p) const {
    PerRank all;
    for (int rank = 0; rank < ranks; ++rank) {
      int source = rank;
      for (const std::size_t g : held[p].whole) source = groups[g].first_of(source);
      Values& values = all.emplace_back();
      for (std::size_t i = 0; i < count(rank, p); ++i) {
        values.push_back(whole_number(seed, source, p, i));
      }
    }
    return all;
  }
  /// What they have after a sum over a group.
  [[nodiscard]] PerRank summed(const PerRank& parts, const Group& group) const {
    PerRank sums = parts;
    for (int rank = 0; rank < ranks; ++rank) {
      Values& sum = sums[as_size(rank)];
      for (int other = 0; other < ranks; ++other) {
        if (other == rank || group.first_of(other) != group.first_of(rank)) continue;
        std::ranges::transform(sum, parts[as_size(other)], sum.begin(), std::plus<>());
      }
    }
    return sums;
  }
  [[nodiscard]] PerRank summed(PerRank parts, const Numbers& over) const {
    for (const std::size_t g : over) parts = summed(parts, groups[g]);
    return parts;
  }
};

Values times(double factor, Values values) {
  for (double& value : values) value *= factor;
  return values;
}

/// What a rank has: each piece stands between two elements that are somebody else's.
class Holder {
 public:
  static constexpr double kSomebodyElses = 77;

  Holder(const Case& the_case, const Communicator& world) : case_(the_case), world_(world) {
    const int rank = world.rank();
    for (const Group& group : case_.groups) {
      const Communicator ranks = world.split(group.first_of(rank), rank, group.name);
      groups_.add(group.name, group.size == world.size() ? world : ranks);
    }
    for (std::size_t p = 0; p < case_.held.size(); ++p) {
      const Held& held = case_.held[p];
      std::size_t whole = 0;
      for (const std::size_t count : held.counts) whole += count;
      parameters_.push_back(std::make_unique<nn::Parameter>(
          nn::ParameterSpec{.name = held.name,
                            .global_shape = is_norm(held) ? Shape{whole} : Shape{whole, 1},
                            .shard = {},
                            .initializer = {},
                            .padding = 0},
          device_, case_.dtype, case_.seed, nn::Values::kDeferred));
      for (std::size_t g = 0; g < case_.groups.size(); ++g) {
        const Group& group = case_.groups[g];
        const bool in_parts = std::ranges::count(held.in_parts, g) == 1;
        if (!in_parts && std::ranges::count(held.whole, g) == 0) continue;
        parameters_.back()->replicate(
            {.group = group.name,
             .size = group.size,
             .index = group.index_of(rank),
             .gradients = in_parts ? CopyGradients::kPartial : CopyGradients::kEqual});
      }
      const std::size_t count = case_.count(rank, p);
      if (count == 0) continue;
      numbers_.push_back(p);
      arrays_.push_back(Tensor::empty(device_, {count + 2}, case_.dtype));
      arrays_.back().fill(kSomebodyElses);
      // Pieces are flat, or whole and of their parameter's shape.
      const Tensor flat = arrays_.back().slice(0, {1, count + 1});
      const bool is_flat = count < whole || count % 2 == 0;
      const Tensor values = Tensor::from<double>(device_, {count}, own(case_.before(p)));
      flat.copy_from(values.to(case_.dtype));
      pieces_.push_back({.parameter = parameters_.back().get(),
                         .grad = is_flat ? flat : flat.view(parameters_.back()->shape())});
    }
  }

  void add_up() const { sum_partial_gradients(pieces_, groups_); }

  [[nodiscard]] const std::vector<train::GradientPiece>& pieces() const { return pieces_; }

  void expect_sums(const char* hint = kPlaces) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::size_t p = numbers_[i];
      const Values right = own(case_.summed(case_.before(p), case_.held[p].in_parts));
      const std::string what = fmt::format("{} on rank {}\n", case_.held[p].name, world_.rank());
      EXPECT_TRUE(test::all_equal(pieces_[i].grad, right))
          << what << diagnosis(p, pieces_[i].grad, right, hint);
      const Values array = arrays_[i].to_vector();
      EXPECT_TRUE(array.front() == kSomebodyElses && array.back() == kSomebodyElses)
          << what << kNeighbours;
    }
  }

  /// What the sums have cost: bytes by the closed form of the platform's own all-reduce.
  void expect_cost(const CommStats& before, const CommStats& after) const {
    std::size_t all_reduces = 0;
    std::size_t elements = 0;
    for (std::size_t g = 0; g < case_.groups.size(); ++g) {
      const Communicator& ranks = groups_.at(case_.groups[g].name);
      std::size_t count = 0;
      for (std::size_t p = 0; p < case_.held.size(); ++p) {
        const bool adds_up = std::ranges::count(case_.held[p].in_parts, g) == 1;
        count += adds_up ? case_.count(world_.rank(), p) : 0;
      }
      const std::size_t share = comm::Chunks::even({0, count}, ranks.size())[ranks.rank()].size();
      elements += count - share + as_size(ranks.size() - 1) * share;
      all_reduces += count > 0 && ranks.size() > 1 ? 1U : 0U;
    }
    EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
              all_reduces)
        << "all-reduces\n"
        << kOne;
    EXPECT_EQ(after.sent_bytes() - before.sent_bytes(), elements * size_of(case_.dtype))
        << "bytes sent\n"
        << kBytes;
  }

 private:
  [[nodiscard]] static bool is_norm(const Held& held) {
    return held.name.find("norm") != std::string::npos;
  }
  [[nodiscard]] const Values& own(const PerRank& all) const { return all[as_size(world_.rank())]; }

  [[nodiscard]] const char* diagnosis(std::size_t p, const Tensor& grad, const Values& right,
                                      const char* otherwise) const {
    const Held& held = case_.held[p];
    if (held.in_parts.empty()) return held.whole.empty() ? kAlone : kEqual;
    const Values found = grad.to_vector();
    const PerRank parts = case_.before(p);
    if (found == own(parts)) {
      if (otherwise == kEarly) return kEarly;
      return is_norm(held) ? kNormsForgotten : kHeadsForgotten;
    }
    for (int factor = 2; factor <= case_.ranks; ++factor) {
      if (found == times(factor, right)) return kTwice;
    }
    Numbers as_large;
    for (std::size_t g = 0; g < case_.groups.size(); ++g) {
      const bool same = case_.groups[g].size == case_.groups[held.in_parts[0]].size;
      if (same) as_large.push_back(g);
    }
    if (found == own(case_.summed(parts, as_large))) return kBySize;
    for (const std::size_t g : held.in_parts) {
      if (found == own(case_.summed(parts, Numbers{g}))) return kOneOfSeveral;
    }
    const Group all = {.name = "all", .size = case_.ranks};
    if (found == own(case_.summed(parts, all))) return kOverAll;
    const double close = test::rounding_bound(case_.dtype, 4, test::largest_magnitude(right));
    for (int size = 2; size <= case_.ranks; ++size) {
      if (test::all_near(grad, times(1.0 / size, right), close)) return kAverage;
    }
    return otherwise;
  }

  Case case_;
  Communicator world_;
  Device device_ = Device::cpu();
  train::RankGroups groups_;
  std::vector<std::unique_ptr<nn::Parameter>> parameters_;
  std::vector<std::size_t> numbers_;  // of the pieces' parameters
  std::vector<Tensor> arrays_;
  std::vector<train::GradientPiece> pieces_;
};

class PartialGradients : public test::RandomTest {
 protected:
  /// The same permutation on every rank.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[random.between(0, i - 1)]);
    }
  }
  Numbers some(std::size_t replicas = 1) {
    Numbers counts;
    for (std::size_t i = 0; i < replicas; ++i) counts.push_back(random.between(1, 9));
    return counts;
  }
  Case empty_case(int ranks, std::vector<Group> groups) {
    shuffle(groups);
    return {.ranks = ranks,
            .dtype = random.pick({DType::kF32, DType::kF64}),
            .groups = std::move(groups),
            .held = {},
            .seed = seed};
  }

  /// Norm weights, heads and matrices of one rank, in any order.
  /// @param kv_copies  ranks that hold the same key/value heads.
  Case draw(int ranks, int kv_copies, CopyGradients of_norms, std::size_t replicas = 1) {
    const int tp = ranks / static_cast<int>(replicas);
    Case c = empty_case(ranks, {{.name = "tp", .size = tp}, {.name = "heads", .size = kv_copies}});
    c.replicas = replicas;
    const std::size_t all = c.groups[0].name == "tp" ? 0 : 1;
    const bool in_parts = of_norms == CopyGradients::kPartial;
    const auto norm = [&](const std::string& name) {
      const Numbers in_tp = {all};
      c.held.push_back(
          {name, some(replicas), in_parts ? in_tp : Numbers{}, in_parts ? Numbers{} : in_tp});
    };
    const std::size_t layers = random.between(1, 3);
    for (std::size_t i = 0; i < layers; ++i) {
      norm(fmt::format("norm {}", i));
      c.held.push_back({fmt::format("queries {}", i), some(replicas), {}, {}});
      c.held.push_back({fmt::format("keys {}", i), some(replicas), {1 - all}, {}});
      c.held.push_back({fmt::format("values {}", i), some(replicas), {1 - all}, {}});
    }
    norm("last norm");
    shuffle(c.held);
    return c;
  }

  /// The sums where they belong, at the cost of one all-reduce per group.
  static void expect_completed(const Case& c) {
    on_ranks(c.ranks, c.str(), [&](Communicator& world) {
      const Holder holder(c, world);
      const CommStats before = world.stats();
      holder.add_up();
      const CommStats after = world.stats();
      holder.expect_sums();
      holder.expect_cost(before, after);
    });
  }
};

// Any number of ranks, and of ranks that hold the same heads.
TEST_F(PartialGradients, PartsAreAddedUpOverTheRanksThatHoldTheSame) {
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    for (int copies = 1; copies <= ranks; ++copies) {
      if (ranks % copies != 0) continue;
      for (const CopyGradients of_norms : {CopyGradients::kPartial, CopyGradients::kEqual}) {
        if (!HasFailure()) expect_completed(draw(ranks, copies, of_norms));
      }
    }
  }
}

// Rows and columns of a square of ranks; parameters are whole or in parts in one or in both.
TEST_F(PartialGradients, GroupsOfEqualSizeAreKeptApart) {
  for (const int size : {2, 3}) {
    Case c = empty_case(size * size, {{.name = "row", .size = size, .stride = 1},
                                      {.name = "column", .size = size, .stride = size}});
    const std::vector<std::pair<Numbers, Numbers>> ways = {
        {{0}, {}}, {{1}, {}}, {{}, {0}}, {{0}, {1}}, {{1}, {0}}, {{0, 1}, {}}, {{}, {0, 1}}};
    for (const auto& [in_parts, whole] : ways) {
      c.held.push_back({"matrix", some(), in_parts, whole});
    }
    shuffle(c.held);
    expect_completed(c);
  }
}

// As with ZeRO: each replica has other elements, and of some parameters none.
TEST_F(PartialGradients, PiecesOfShardsAreAddedUpAmongThoseThatHaveTheSameOnes) {
  for (const std::size_t replicas : {2U, 3U}) {
    Case c = draw(static_cast<int>(4 * replicas), 2, CopyGradients::kPartial, replicas);
    for (Held& held : c.held) {
      const bool heads = held.name.starts_with("keys") || held.name.starts_with("values");
      held.counts[heads ? 0 : random.between(0, replicas - 1)] = 0;
    }
    expect_completed(c);
  }
}

TEST_F(PartialGradients, TheSumsAreHereWhenTheLastRankHasCome) {
  const Case c = draw(4, 2, CopyGradients::kPartial);
  on_ranks(c.ranks, c.str(), [&](Communicator& world) {
    const Holder holder(c, world);
    come_late(world);
    holder.add_up();
    holder.expect_sums(kEarly);
  });
}

TEST_F(PartialGradients, AllCopiesHaveTheSameBits) {
  for (const DType dtype : kFloatDTypes) {
    Case c = draw(6, 3, CopyGradients::kPartial);
    std::erase_if(c.held, [](const Held& held) { return held.in_parts.empty(); });
    c.dtype = dtype;
    std::vector<PerRank> parts(c.held.size(), PerRank(6));
    std::vector<PerRank> sizes = parts;
    std::vector<std::vector<Tensor>> sums(c.held.size(), std::vector<Tensor>(6));
    on_ranks(c.ranks, c.str(), [&](Communicator& world) {
      const Holder holder(c, world);
      const std::size_t r = as_size(world.rank());
      Random own(seed + r);
      for (std::size_t p = 0; p < c.held.size(); ++p) {
        sums[p][r] = holder.pieces()[p].grad;
        own.fill(sums[p][r], 1.0);
        parts[p][r] = sums[p][r].to_vector();
        for (const double part : parts[p][r]) sizes[p][r].push_back(std::abs(part));
      }
      holder.add_up();
    });
    for (std::size_t p = 0; p < c.held.size() && !HasFailure(); ++p) {
      const PerRank expected = c.summed(parts[p], c.held[p].in_parts);
      const PerRank size = c.summed(sizes[p], c.held[p].in_parts);
      for (std::size_t r = 0; r < 6 && !HasFailure(); ++r) {
        const int first = c.groups[c.held[p].in_parts[0]].first_of(static_cast<int>(r));
        EXPECT_TRUE(test::all_equal(sums[p][r], sums[p][as_size(first)]))
            << c.held[p].name << " on ranks " << r << " and " << first
            << "\nHint: copies that differ in a bit drift apart: every rank has the same sum.";
        Values tolerances;
        for (const double sum : size[r]) tolerances.push_back(test::rounding_bound(dtype, 6, sum));
        EXPECT_TRUE(test::all_near(sums[p][r], expected[r], tolerances))
            << c.held[p].name << " on rank " << r << "\n"
            << kPlaces;
      }
    }
  }
}

// Two micro-batches through an RMSNorm: each rank has its tokens, one rank has all.
TEST_F(PartialGradients, ANormsGradientIsThatOfAllTokensOfAllMicroBatches) {
  for (const DType dtype : kFloatDTypes) {
    for (const int ranks : {1, 2, 4}) {
      const std::size_t local_seq = random.between(1, 3);
      const std::size_t hidden = random.between(2, 6);
      const std::size_t seq = as_size(ranks) * local_seq;
      const std::size_t batch = 2;
      nn::ModelConfig model;
      model.hidden_size = hidden;
      nn::DenseFactory factory;
      // On a device of its own, from the same numbers.
      const auto norm_of = [&](Range tokens, double& size) {
        const Device own = Device::cpu();
        auto norm = std::make_unique<nn::RmsNorm>(
            nn::BuildContext{model, own, dtype, seed, nullptr, factory}, "norm");
        Random numbers(seed);
        for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
          const Tensor x = numbers.tensor(own, {batch, seq, hidden}, dtype);
          const Tensor d_y = numbers.tensor(own, {batch, seq, hidden}, dtype);
          for (const double value : d_y.to_vector()) size += std::abs(value);
          nn::Saved saved;
          (void)norm->forward(x.slice(1, tokens).clone(), saved);
          (void)norm->backward(d_y.slice(1, tokens).clone(), saved);
        }
        return norm;
      };
      double size = 0;  // of all d_y
      const auto dense = norm_of({0, seq}, size);
      // |x / rms| is at most sqrt(hidden).
      const double tolerance = test::rounding_bound(dtype, count_of(4 * batch * seq + hidden + 20),
                                                    size * std::sqrt(count_of(hidden)));
      on_ranks(ranks, fmt::format("RMSNorm, {}", to_string(dtype)), [&](Communicator& tp) {
        const std::size_t begin = as_size(tp.rank()) * local_seq;
        double same_size = 0;
        const auto norm = norm_of({begin, begin + local_seq}, same_size);
        nn::Parameter* weight = norm->parameters()[0];
        weight->replicate({"tp", ranks, tp.rank(), CopyGradients::kPartial});
        const std::vector<train::GradientPiece> pieces = {
            {.parameter = weight, .grad = weight->grad()}};
        train::RankGroups groups;
        groups.add("tp", tp);
        sum_partial_gradients(pieces, groups);
        EXPECT_TRUE(test::all_near(weight->grad(), dense->parameters()[0]->grad(), tolerance))
            << kNormsForgotten;
      });
    }
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
